/// How a broker of memory works; checked as a whole when the broker is made.
public struct MemoryConfiguration: Sendable {
  /// What is short.
  public enum Limit: Sendable, Hashable {
    /// So many bytes, for what the apps of this broker hold. (R-MEM-03)
    case budget(UInt64)
    /// The machine's memory, or that of the memory cgroup that the program runs in, where that is less.
    case machine
  }

  /// What becomes of the drawing memory of an app that leaves the foreground. (R-GFX-04)
  public enum Drawing: String, Sendable, Hashable, CaseIterable {
    /// It stays.
    case kept
    /// It may be taken when memory is short.
    case volatile
    /// It is given to the kernel: ordinary allocation of anybody gets the pages when there are no others.
    /// (R-GFX-05)
    case lazy
  }

  /// What counts as all memory.
  public var limit: Limit = .machine
  /// When levels change, and how much goes at the critical one.
  public var gauge = PressureGauge.standard
  /// Which volatile memory goes first.
  public var order = PurgeOrder()
  /// How purgeable memory is taken under pressure.
  public var mode: PurgeMode = .eager
  /// What becomes of drawing memory of an app that is not in front.
  public var drawing: Drawing = .lazy
  /// Which app goes when purging was not enough.
  public var removal: any RemovalChoosing = RemovalPolicy()

  /// The default of each setting.
  public init() {}
}
