import Synchronization

/// The memory of one app: what it holds, and its standing, which decides how soon memory is taken from it.
///
/// Make it by ``MemoryBroker/makeMemory(named:standing:)``, once for an app and not for each of its launches.
/// All members may be used from any thread; none blocks.
public final class AppMemory: Sendable {
  let record: AppMemoryRecord
  let broker: BrokerCore

  init(_ record: AppMemoryRecord, _ broker: BrokerCore) {
    self.record = record
    self.broker = broker
  }

  /// The name given at creation; for people.
  public var name: String { record.name }
  /// The app's number in removal candidates.
  public var number: UInt32 { record.number }
  /// The app's standing. Change it with ``setStanding(_:)``.
  public var standing: AppStanding { record.currentStanding }

  /// Sets the app's standing. When the app leaves the foreground, its drawing memory is treated as
  /// ``MemoryConfiguration/drawing-swift.property`` says. When it comes back, nothing is restored: the app
  /// learns at its next access whether the memory was taken. (R-GFX-04, R-GFX-06)
  public func setStanding(_ standing: AppStanding) { broker.setStanding(standing, of: record) }

  /// How often the app's standing has risen, over all its launches. It shows whether a choice for removal is
  /// out of date.
  package var rises: UInt64 { record.rises.load(ordering: .relaxed) }

  // MARK: Memory

  /// Allocates purgeable memory, initially zero.
  ///
  /// Under a budget, room is made for it first.
  ///
  /// - Parameters:
  ///   - count: the number of elements; at least 1. Sizes are rounded up to pages.
  ///   - group: among regions of apps of the same standing, lower groups are taken first.
  ///   - isVolatile: whether the memory may be taken between scopes.
  /// - Throws: ``MemoryError``: `configuration`, or `system` where the kernel has no address space left.
  public func purgeable<Element: BitwiseCopyable>(
    of type: Element.Type = Element.self, count: Int, group: UInt32 = 0, isVolatile: Bool = true
  ) throws(MemoryError) -> Purgeable<Element> {
    try Purgeable(self, count: count, group: group, isVolatile: isVolatile)
  }

  /// Allocates drawing memory. It is purgeable while the app is not in the foreground, as
  /// ``MemoryConfiguration/drawing-swift.property`` says. (R-GFX-04, R-GFX-06)
  ///
  /// - Parameter bytes: rounded up to pages.
  /// - Throws: as ``purgeable(of:count:group:isVolatile:)``.
  public func drawing(bytes: Int) throws(MemoryError) -> Purgeable<UInt8> {
    let drawing = try Purgeable<UInt8>(self, count: bytes, group: drawingGroup, isVolatile: false)
    // Only now that the region exists: the app may have left the foreground meanwhile.
    if broker.configuration.drawing != .kept { drawing.region.updateDrawing() }
    return drawing
  }

  /// Makes a cache of byte sequences in purgeable memory.
  ///
  /// - Parameters:
  ///   - costLimit: the limit in bytes; each value costs its whole pages.
  ///   - group: as for ``purgeable(of:count:group:isVolatile:)``.
  /// - Throws: ``MemoryError`` with code `configuration` where `costLimit` is not above 0.
  public func cache<Key>(
    by type: Key.Type = Key.self, costLimit: Int, group: UInt32 = 0
  ) throws(MemoryError) -> PurgeableCache<Key> {
    try PurgeableCache(self, costLimit: costLimit, group: group)
  }

  /// Allocates ordinary memory that the ledger counts: initially zero, and dirty.
  ///
  /// - Parameters:
  ///   - bytes: rounded up to pages.
  ///   - isWired: whether the memory is locked into main memory.
  /// - Throws: ``MemoryError``: `configuration`, or `system`, such as where no more memory may be locked.
  public func allocate(bytes: Int, isWired: Bool = false) throws(MemoryError) -> MemoryBlock {
    try MemoryBlock(self, bytes: bytes, isWired: isWired)
  }

  /// Maps a file's bytes, read only: clean memory.
  ///
  /// - Throws: ``MemoryError``: `configuration` for an empty file, or `system`.
  public func map(file path: String) throws(MemoryError) -> MemoryBlock { try MemoryBlock(self, file: path) }

  /// Reports how much dirty memory the app holds besides what it has allocated here. The ledger and the
  /// choice of removals use it.
  ///
  /// - Parameter bytes: the total, not an increase; below 2^48.
  /// - Throws: ``MemoryError`` with code `configuration`.
  public func setOutside(bytes: UInt64) throws(MemoryError) {
    guard bytes < 1 << 48 else { throw .range("memory outside", "\(bytes) bytes", "less than 2^48") }
    let known = record.outside.load(ordering: .relaxed)
    if bytes > known { broker.makeRoom(for: Int(bytes - known)) }
    let before = record.outside.exchange(bytes, ordering: .relaxed)
    if bytes > before { broker.add(bytes - before) } else { broker.subtract(before - bytes) }
  }

  /// Resets the memory that the app holds outside, for an app that does not report it itself: its state was
  /// saved.
  ///
  /// - Returns: the bytes, to be passed to ``setOutside(bytes:)`` when the app comes back.
  package func letGoOutside() -> UInt64 {
    let bytes = record.outside.exchange(0, ordering: .relaxed)
    broker.subtract(bytes)
    return bytes
  }

  /// Releases now what can be made or loaded again. Called before hibernation, which then need not write it.
  /// (R-MEM-05)
  ///
  /// - Returns: bytes of purgeable memory released.
  @discardableResult
  public func purge() -> UInt64 {
    broker.files.drop { $0 === record }
    return broker.revoke(of: record) { $0.is_volatile }
  }

  /// Releases all purgeable memory of an app that has ended, and resets what it held outside. Memory that one
  /// of its slices still has pinned stays until the next call, or until it is closed.
  ///
  /// - Returns: bytes released.
  @discardableResult
  public func takeBack() -> UInt64 {
    _ = letGoOutside()
    broker.files.drop { $0 === record }
    return broker.revoke(of: record) { _ in true }
  }

  /// Records that an ended app has released all that it will release. When memory is short, what it still
  /// holds is no longer awaited, and other apps are removed. This holds until its standing is set again.
  package func finishReturning() { record.hasReturnedAll.store(true, ordering: .relaxed) }

  /// What the app holds now.
  public var ledger: MemoryLedger { broker.ledger(of: record) }
}

/// The group of drawing memory, which tells it from an app's other regions. It is the last group to be taken.
let drawingGroup = UInt32.max
