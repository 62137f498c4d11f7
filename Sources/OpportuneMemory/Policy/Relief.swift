/// The result of an attempt to get memory back.
public struct Relief: Sendable, Hashable {
  /// Bytes of purgeable memory released.
  public var purged: UInt64 = 0
  /// The apps whose removal was asked for; their memory is released as they leave.
  public var removals: [Removal] = []
  /// Bytes over the critical point that purging and removals do not cover.
  public var missing: UInt64 = 0
}
