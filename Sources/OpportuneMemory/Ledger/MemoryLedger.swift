internal import COpportune

/// The composition of memory, in bytes. (R-MEM-15)
///
/// Every byte that the library has handed out is in exactly one column, so the columns always add up to
/// ``handedOut``. Memory counts by whole pages, touched or not.
///
/// Memory from elsewhere, such as `malloc`, Swift objects, arrays and libraries, is in no ledger unless the
/// app reports it with ``AppMemory/setOutside(bytes:)``. The kernel knows such memory only for the process as
/// a whole, not by app. It does count where the limit is the machine's.
public struct MemoryLedger: Sendable, Hashable {
  /// Changed memory, which can be released only after it was written elsewhere; includes what the app reports
  /// with `setOutside`.
  public var dirty: UInt64 = 0
  /// Files' pages: the kernel drops and reloads them.
  public var clean: UInt64 = 0
  /// Memory locked into main memory.
  public var wired: UInt64 = 0
  /// Purgeable memory that is in use or not volatile.
  public var pinned: UInt64 = 0
  /// Purgeable memory that can be taken at once.
  public var volatile: UInt64 = 0
  /// Purgeable memory that was released lazily; the kernel takes it when it needs it.
  public var lazy: UInt64 = 0
  /// Purgeable memory that was taken: address space without pages.
  public var purged: UInt64 = 0

  package init() {}

  /// The sum of all columns.
  public var handedOut: UInt64 { dirty + clean + wired + pinned + volatile + lazy + purged }
  /// What counts against a budget: all that the kernel cannot take without writing.
  public var inUse: UInt64 { dirty + wired + pinned + volatile }
  /// What hibernation must write. (R-MEM-05)
  public var unreconstitutable: UInt64 { dirty + wired }

  /// Adds column by column.
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
  /// Adds a region to the column of its current state.
  mutating func add(_ view: opp_purge_view) {
    if view.is_purged {
      // A thread that fills the region needs its pages.
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
