import Synchronization

/// An app's memory: what it holds, and how far it is from the person in front.
///
/// Made by ``MemoryBroker/app(named:standing:)``, once for an app, not for each launch of it. All members may
/// be used from any thread; none waits for another.
public final class AppMemory: Sendable {
  let record: AppMemoryRecord
  let broker: BrokerCore

  init(_ record: AppMemoryRecord, _ broker: BrokerCore) {
    self.record = record
    self.broker = broker
  }

  /// For people.
  public var name: String { record.name }
  /// The number that candidates for removal are known by.
  public var number: UInt32 { record.number }
  /// How far it is from the person in front. Settable by ``setStanding(_:)``.
  public var standing: AppStanding { record.currentStanding }

  /// Says where the app is now. Leaving the foreground, its drawing memory goes as
  /// ``MemoryConfiguration/drawing-swift.property`` says; coming back, it stays what it is: the app learns at
  /// its next access whether it was taken. (R-GFX-04, R-GFX-06)
  public func setStanding(_ standing: AppStanding) { broker.setStanding(standing, of: record) }

  /// How often it came nearer to the person in front, also in another life: by it who was chosen before that
  /// is told.
  package var rises: UInt64 { record.rises.load(ordering: .relaxed) }

  // MARK: Memory

  /// Purgeable memory, zero at first.
  ///
  /// Under a budget, room is made for it first.
  ///
  /// - Parameters:
  ///   - count: elements; at least 1. Sizes are rounded up to pages.
  ///   - group: the lower, the sooner it is taken, among regions of apps of the same standing.
  ///   - isVolatile: whether it may be taken between scopes.
  /// - Throws: ``MemoryError``: `configuration`, or `system` where the kernel has no address space left.
  public func purgeable<Element: BitwiseCopyable>(
    of type: Element.Type = Element.self, count: Int, group: UInt32 = 0, isVolatile: Bool = true
  ) throws(MemoryError) -> Purgeable<Element> {
    try Purgeable(self, count: count, group: group, isVolatile: isVolatile)
  }

  /// Memory to draw into, purgeable while the app is not in front, as
  /// ``MemoryConfiguration/drawing-swift.property`` says. (R-GFX-04, R-GFX-06)
  ///
  /// - Parameter bytes: rounded up to pages.
  /// - Throws: as ``purgeable(of:count:group:isVolatile:)``.
  public func drawing(bytes: Int) throws(MemoryError) -> Purgeable<UInt8> {
    let drawing = try Purgeable<UInt8>(self, count: bytes, group: drawingGroup, isVolatile: false)
    // Not before it is there: the app may leave the foreground meanwhile.
    if broker.configuration.drawing != .kept { drawing.region.updateDrawing() }
    return drawing
  }

  /// A cache of bytes in purgeable memory.
  ///
  /// - Parameters:
  ///   - costLimit: in bytes; each value costs its whole pages.
  ///   - group: as for ``purgeable(of:count:group:isVolatile:)``.
  /// - Throws: ``MemoryError`` with code `configuration` where `costLimit` is not above 0.
  public func cache<Key>(
    by type: Key.Type = Key.self, costLimit: Int, group: UInt32 = 0
  ) throws(MemoryError) -> PurgeableCache<Key> {
    try PurgeableCache(self, costLimit: costLimit, group: group)
  }

  /// Ordinary memory that the ledger knows of: zero at first, and dirty.
  ///
  /// - Parameters:
  ///   - bytes: rounded up to pages.
  ///   - isWired: locked into main memory.
  /// - Throws: ``MemoryError``: `configuration`, or `system`, as where more may not be locked.
  public func allocate(bytes: Int, isWired: Bool = false) throws(MemoryError) -> MemoryBlock {
    try MemoryBlock(self, bytes: bytes, isWired: isWired)
  }

  /// A file's bytes, read only: clean memory.
  ///
  /// - Throws: ``MemoryError``: `configuration` for an empty file, or `system`.
  public func map(file path: String) throws(MemoryError) -> MemoryBlock { try MemoryBlock(self, file: path) }

  /// Says how much dirty memory the app holds besides what it got here: for the ledger, and for who is
  /// removed.
  ///
  /// - Parameter bytes: in all, not more of it; below 2^48.
  /// - Throws: ``MemoryError`` with code `configuration`.
  public func setOutside(bytes: UInt64) throws(MemoryError) {
    guard bytes < 1 << 48 else { throw .range("memory outside", "\(bytes) bytes", "less than 2^48") }
    let known = record.outside.load(ordering: .relaxed)
    if bytes > known { broker.makeRoom(for: Int(bytes - known)) }
    let before = record.outside.exchange(bytes, ordering: .relaxed)
    if bytes > before { broker.add(bytes - before) } else { broker.subtract(before - bytes) }
  }

  /// It has let go of what it held outside, as far as it does not say so itself: its state is saved.
  ///
  /// - Returns: bytes, to be said again with ``setOutside(bytes:)`` as it comes back.
  package func letGoOutside() -> UInt64 {
    let bytes = record.outside.exchange(0, ordering: .relaxed)
    broker.subtract(bytes)
    return bytes
  }

  /// Gives back what can be made or loaded again, now: before hibernation, which need not write it.
  /// (R-MEM-05)
  ///
  /// - Returns: bytes of purgeable memory given back.
  @discardableResult
  public func purge() -> UInt64 {
    broker.files.drop { $0 === record }
    return broker.revoke(of: record) { $0.is_volatile }
  }

  /// Takes back all purgeable memory of an app that is over, and forgets what it held outside. Memory that a
  /// slice of it still has pinned stays until the next call, or until it is closed.
  ///
  /// - Returns: bytes given back.
  @discardableResult
  public func takeBack() -> UInt64 {
    _ = letGoOutside()
    broker.files.drop { $0 === record }
    return broker.revoke(of: record) { _ in true }
  }

  /// Says that an app which is gone has given back what it will: what it still holds is not waited for any
  /// more when memory is short, and others are removed. Until its standing is set again.
  package func finishReturning() { record.hasReturnedAll.store(true, ordering: .relaxed) }

  /// What it holds now.
  public var ledger: MemoryLedger { broker.ledger(of: record) }
}

/// Drawing memory is told from an app's other regions by its group, and goes after them.
let drawingGroup = UInt32.max
