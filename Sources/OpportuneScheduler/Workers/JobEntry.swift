internal import COpportune

/// What the run queue carries for a job: a pointer, in whose low bits stands what it points to, and a tag
/// with the job's base priority and, for one job in eight, when it was queued. How far it was lowered follows
/// from base and rank.
///
///     pointer, bits 0-1  kind
///     tag, bits 0-2      base
///          bits 3-31     microseconds of the monotonic clock, modulo 536 s; 0 where they were not noted
///
/// In a strand's queue there are no bases and no times: see `isDonated` and `isAwaited`.
struct JobEntry: @unchecked Sendable {
  enum Kind: UInt {
    /// An `UnownedJob` to be run on the app's executor.
    case task = 0
    /// A retained ``Closure``.
    case closure = 1
    /// A retained ``Strand``: a strand that has jobs.
    case strand = 2
    /// A retained ``QueuedObject``.
    case object = 3
  }

  let raw: opp_job

  /// - Parameter pointer: to an object of the runtime's, or of the language's: both are aligned to 16 bytes.
  init(_ kind: Kind, _ pointer: UnsafeMutableRawPointer, base: BasePriority, queuedAt nanoseconds: UInt64?) {
    let time = nanoseconds.map { max(1, UInt32(truncatingIfNeeded: $0 / 1000) & 0x1FFF_FFFF) } ?? 0
    self.init(kind, pointer, tag: UInt32(base.index) | time << 3)
  }

  /// For a strand's queue.
  init(_ kind: Kind, _ pointer: UnsafeMutableRawPointer) { self.init(kind, pointer, tag: 0) }

  private init(_ kind: Kind, _ pointer: UnsafeMutableRawPointer, tag: UInt32) {
    raw = opp_job(
      ptr: UnsafeMutableRawPointer(bitPattern: UInt(bitPattern: pointer) | kind.rawValue), tag: tag)
  }

  /// The same in a strand's queue.
  ///
  /// - Parameters:
  ///   - isDonated: queued from work of an app of a higher band.
  ///   - isAwaited: counted among the waits for the strand's app.
  init(_ entry: JobEntry, isDonated: Bool, isAwaited: Bool) {
    raw = opp_job(ptr: entry.raw.ptr, tag: (isDonated ? 1 : 0) | (isAwaited ? 2 : 0))
  }

  init(_ job: opp_job) { raw = job }

  // A job is only ever made by these initialisers, from a pointer.
  var pointer: UnsafeMutableRawPointer {
    UnsafeMutableRawPointer(bitPattern: UInt(bitPattern: raw.ptr) & ~3).unsafelyUnwrapped
  }

  @inline(__always) var kind: Kind { Kind(rawValue: UInt(bitPattern: raw.ptr) & 3).unsafelyUnwrapped }

  var base: BasePriority { BasePriority(index: UInt8(raw.tag & 7)) }

  /// Whether somebody in a higher band waits for it. In strands' queues only.
  var isDonated: Bool { raw.tag & 1 != 0 }

  /// Whether another app's foreground work waits for it to begin. Likewise.
  var isAwaited: Bool { raw.tag & 2 != 0 }

  /// Microseconds in the queue, if that was noted.
  func waited(until nanoseconds: UInt64) -> UInt64? {
    guard raw.tag >> 3 != 0 else { return nil }
    return UInt64((UInt32(truncatingIfNeeded: nanoseconds / 1000) &- raw.tag >> 3) & 0x1FFF_FFFF)
  }
}

/// What runs itself when its entry is taken: an entry that has more to it than the other kinds.
class QueuedObject: @unchecked Sendable {
  /// What its account is kept under.
  let identity: UInt64
  let base: BasePriority

  init(identity: UInt64, base: BasePriority) {
    self.identity = identity
    self.base = base
  }

  /// - Parameter raised: its base in this entry, where that is another.
  /// - Returns: false where memory is short; then nothing was queued.
  func push(
    to owner: AppCore, _ place: OpaquePointer, as raised: BasePriority? = nil, rank: UInt8,
    producer: OpaquePointer,
    stamp: UInt64?, by worker: Worker?
  ) -> Bool {
    let retained = Unmanaged<QueuedObject>.passRetained(self)
    let entry = JobEntry(.object, retained.toOpaque(), base: raised ?? base, queuedAt: stamp)
    if owner.push(entry, to: place, rank: rank, producer: producer, by: worker) { return true }
    retained.release()
    return false
  }

  /// A worker has taken the entry.
  func run(on worker: Worker) {}

  /// The scheduler is gone.
  func abandon() {}
}

/// A closure on its way through the queue. It ends in exactly one of two ways.
final class Closure: Sendable {
  let app: AppCore
  /// Stands for a task id in the table of accounts.
  let identity: UInt64
  private let body: @Sendable () -> Void
  private let cancelled: (@Sendable () -> Void)?

  init(
    app: AppCore, identity: UInt64, body: @escaping @Sendable () -> Void, cancelled: (@Sendable () -> Void)?
  ) {
    self.app = app
    self.identity = identity
    self.body = body
    self.cancelled = cancelled
  }

  func run() { body() }

  func cancel() {
    app.statistics.add(.cancelled, 1, in: app.band)
    cancelled?()
  }
}
