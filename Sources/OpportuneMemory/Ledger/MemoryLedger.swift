internal import COpportune

/// What memory consists of, in bytes. (R-MEM-15)
///
/// Every byte that the library has handed out is in exactly one of the columns, so they always add up to
/// ``handedOut``. Purgeable memory counts by the size of its regions, whole pages, touched or not; so does
/// the rest.
///
/// What an app takes from elsewhere, as from `malloc`, for Swift's objects and arrays or by libraries, is in
/// no ledger unless the app reports it with ``AppMemory/setOutside(bytes:)``: the kernel knows of it for the
/// process as a whole alone, and nobody knows whose it is. It does count where the limit is the machine's.
public struct MemoryLedger: Sendable, Hashable {
  /// Changed, and only to be had back by writing it somewhere; what the app reports of its own among it.
  public var dirty: UInt64 = 0
  /// Files' pages: the kernel drops and reloads them.
  public var clean: UInt64 = 0
  /// Locked into main memory.
  public var wired: UInt64 = 0
  /// Purgeable, and in use or not volatile.
  public var pinned: UInt64 = 0
  /// Purgeable, and to be had at once.
  public var volatile: UInt64 = 0
  /// Purgeable, and given to the kernel, which takes it when it needs it.
  public var lazy: UInt64 = 0
  /// Purgeable, and taken: address space without pages.
  public var purged: UInt64 = 0

  package init() {}

  /// The sum of all columns.
  public var handedOut: UInt64 { dirty + clean + wired + pinned + volatile + lazy + purged }
  /// What counts against a budget: all that the kernel cannot take back by itself without writing.
  public var inUse: UInt64 { dirty + wired + pinned + volatile }
  /// What hibernation would have to write. (R-MEM-05)
  public var unreconstitutable: UInt64 { dirty + wired }

  /// Column by column.
  public static func + (left: MemoryLedger, right: MemoryLedger) -> MemoryLedger {
    var sum = left
    sum += right
    return sum
  }

  package static func += (left: inout MemoryLedger, right: MemoryLedger) {
    left.dirty += right.dirty
    left.clean += right.clean
    left.wired += right.wired
    left.pinned += right.pinned
    left.volatile += right.volatile
    left.lazy += right.lazy
    left.purged += right.purged
  }
}

extension MemoryLedger: CustomStringConvertible {
  public var description: String {
    "dirty \(dirty), clean \(clean), wired \(wired), pinned \(pinned), volatile \(volatile), lazy \(lazy), purged \(purged)"
  }
}

extension MemoryLedger {
  /// A region is in one column, by what it is now.
  mutating func add(_ view: opp_purge_view) {
    if view.is_purged {
      // Who fills it needs its pages.
      if view.pins > 0 { pinned += view.bytes } else { purged += view.bytes }
    } else if view.pins > 0 || !view.is_volatile {
      pinned += view.bytes
    } else if view.is_lazy {
      lazy += view.bytes
    } else {
      volatile += view.bytes
    }
  }
}
