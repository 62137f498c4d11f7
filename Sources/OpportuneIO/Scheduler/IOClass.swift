/// The two classes that share a device. (R-DISK-01, R-NET-03)
package enum IOClass: UInt8, Sendable, Hashable, CaseIterable, Codable {
  /// A person or foreground work waits for the request.
  case foreground = 0
  /// Nothing in the foreground waits for the request: rate limited, capped, divided into chunks.
  case background = 1
}

/// The state of an app as the broker sees it; it decides the class of the app's requests.
public enum IOState: Sendable, Hashable, CaseIterable, Codable {
  /// In the foreground, with the user.
  case active
  /// In the foreground beside another; limited like background where ``DevicePolicy/limitsInactive`` says so.
  case inactive
  /// In the background.
  case background
  /// Suspended: new requests and queued ones wait; requests that the kernel has continue. (R-FTS-07)
  case suspended
}

/// Limits that an app's host sets by device, beyond those of the app's band. (R-SYS-02, R-PWR-05)
package struct IOLimits: Sendable, Equatable {
  package var storage: IOClass
  package var network: IOClass

  package init(storage: IOClass, network: IOClass) {
    self.storage = storage
    self.network = network
  }

  func state(on device: Device) -> IOState? {
    switch device {
    case .storage: storage == .foreground ? .active : .background
    case .network: network == .foreground ? .active : .background
    case .none: nil
    }
  }
}
