internal import OpportuneBase
import Synchronization

/// The broker's record of an app. It is never freed before the broker, so any thread may walk the list of
/// records.
///
/// All accesses are relaxed unless stated otherwise: each count or standing is independent.
final class AppMemoryRecord: Linked, @unchecked Sendable {
  let number: UInt32
  let name: String
  // Written before the record is published.
  var below: UInt = 0

  let standing: Atomic<UInt8>
  /// How often the app's standing has risen.
  let rises = Atomic<UInt64>(0)
  /// When the app was last in the foreground, or was made.
  let used: Atomic<UInt64>
  let wasInFront: Atomic<Bool>
  /// A removal was asked for, and the standing was not set since.
  let isLeaving = Atomic<Bool>(false)
  /// The app has ended, and what it still holds will not be released.
  let hasReturnedAll = Atomic<Bool>(false)
  let outside = Atomic<UInt64>(0)
  /// Bytes of pins that found another thread making the content.
  let ownBuffers = Atomic<UInt64>(0)
  private let dirty = Atomic<UInt64>(0)
  private let clean = Atomic<UInt64>(0)
  private let wired = Atomic<UInt64>(0)

  init(number: UInt32, name: String, standing: AppStanding, now: UInt64) {
    self.number = number
    self.name = name
    self.standing = Atomic(standing.rawValue)
    used = Atomic(now)
    wasInFront = Atomic(standing.isForeground)
  }

  var currentStanding: AppStanding { AppStanding(rawValue: standing.load(ordering: .relaxed)) ?? .gone }

  func add(_ bytes: UInt64, _ kind: MemoryBlock.Kind) {
    switch kind {
    case .dirty: dirty.add(bytes, ordering: .relaxed)
    case .clean: clean.add(bytes, ordering: .relaxed)
    case .wired: wired.add(bytes, ordering: .relaxed)
    }
  }

  func subtract(_ bytes: UInt64, _ kind: MemoryBlock.Kind) {
    switch kind {
    case .dirty: dirty.subtract(bytes, ordering: .relaxed)
    case .clean: clean.subtract(bytes, ordering: .relaxed)
    case .wired: wired.subtract(bytes, ordering: .relaxed)
    }
  }

  /// The memory that is in no region.
  var blocks: MemoryLedger {
    var ledger = MemoryLedger()
    ledger.dirty = dirty.load(ordering: .relaxed) &+ outside.load(ordering: .relaxed)
    ledger.clean = clean.load(ordering: .relaxed)
    ledger.wired = wired.load(ordering: .relaxed)
    ledger.pinned = ownBuffers.load(ordering: .relaxed)
    return ledger
  }
}
