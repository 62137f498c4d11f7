/// What came of an attempt to get memory back.
public struct Relief: Sendable, Hashable {
  /// Bytes of purgeable memory given back.
  public var purged: UInt64 = 0
  /// The apps that were asked for; their memory comes back as they go.
  public var removals: [Removal] = []
  /// Bytes over the critical point that neither gives.
  public var missing: UInt64 = 0
}
