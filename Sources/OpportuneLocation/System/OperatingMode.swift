import OpportuneApps

/// A way to operate, such as being safeRadius, or a medium to communicate by, that holds in a region.
/// (R-SYS-05)
public struct OperatingMode: Sendable, Hashable {
  /// For the host, which does what that means.
  public var name: String
  /// Where it holds.
  public var region: Region
  /// Of the fixes that decide, in metres: 0.01 to 10^6, by default 100.
  public var accuracy: Double

  /// A mode for a region.
  public init(_ name: String, in region: Region, accuracy: Double = 100) {
    self.name = name
    self.region = region
    self.accuracy = accuracy
  }

  func validate() throws(LocationError) { try check(accuracy, "accuracy in metres", within: 0.01...1e6) }
}

extension AppID {
  /// Stands for the system in ``SourceBroker/costs``: what operating modes ask of the sources.
  public static let locationSystem = AppID(-1)
}

extension LocationSystem {
  /// The mode that holds: of those in whose region the device is, the first of the policy; `nil`: of none, or
  /// location services are off.
  public var operatingMode: OperatingMode? { isEnabled ? modesInside.min().map { policy.modes[$0] } : nil }

  /// Watches the regions of the policy's modes.
  mutating func monitorModes() throws(LocationError) {
    for (index, mode) in policy.modes.enumerated() {
      modes[try monitor.add(Fence(mode.region, reportsInitialState: true))] = index
    }
  }

  /// A crossing of a mode's region is for nobody else.
  mutating func crossed(mode index: Int, _ kind: Crossing.Kind) {
    if kind == .enter { modesInside.insert(index) } else { modesInside.remove(index) }
  }

  /// The accuracy that modes need, in metres.
  var accuracyOfModes: Double? { isEnabled ? policy.modes.map(\.accuracy).min() : nil }
}
