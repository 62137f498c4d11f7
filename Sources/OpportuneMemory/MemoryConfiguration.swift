/// The settings of a memory broker; checked as a whole when the broker is made.
public struct MemoryConfiguration: Sendable {
  /// The resource that limits memory.
  public enum Limit: Sendable, Hashable {
    /// A budget in bytes for all apps of this broker; the critical point lies below it, see ``gauge``.
    /// (R-MEM-03)
    case budget(UInt64)
    /// The machine's memory, or that of the program's memory cgroup where that is less.
    case machine
  }

  /// How the drawing memory of an app is treated when the app leaves the foreground. (R-GFX-04)
  public enum Drawing: String, Sendable, Hashable, CaseIterable {
    /// It is kept.
    case kept
    /// It may be taken when memory is short.
    case volatile
    /// It is released lazily: any allocation gets the pages when there are no others. (R-GFX-05)
    case lazy
  }

  /// The resource that limits memory.
  public var limit: Limit = .machine
  /// When levels change, and how much is released at the critical level.
  public var gauge = PressureGauge.standard
  /// The order in which volatile memory is taken.
  public var order = PurgeOrder()
  /// How purgeable memory is taken under pressure.
  public var mode: PurgeMode = .eager
  /// How the drawing memory of an app is treated when the app leaves the foreground.
  public var drawing: Drawing = .lazy
  /// Which app is removed when purging is not enough.
  public var removal: any RemovalChoosing = RemovalPolicy()

  /// Makes a configuration of the defaults.
  public init() {}
}
