/// The two classes that a device is shared between. (R-DISK-01, R-NET-03)
package enum IOClass: UInt8, Sendable, Hashable, CaseIterable, Codable {
  /// Somebody waits for it.
  case foreground = 0
  /// Nobody waits for it: rate limited, capped, cut into chunks.
  case background = 1
}

/// What an app is to the broker: decides the class of its requests.
public enum IOState: Sendable, Hashable, CaseIterable, Codable {
  /// In the foreground, with the user.
  case active
  /// In the foreground beside another; limited like background where ``DevicePolicy/limitsInactive`` says so.
  case inactive
  /// In the background.
  case background
  /// Submits nothing; what is queued waits, what the kernel does for it goes on. (R-FTS-07)
  case suspended
}

/// Classes of an app that its host limits device by device, whatever its band. (R-SYS-02, R-PWR-05)
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
