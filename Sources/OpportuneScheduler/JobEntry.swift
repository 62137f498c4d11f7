internal import COpportune

/// What the run queue carries for a job: a pointer, and a tag that says what it points to and, for one job in eight,
/// when it was queued.
///
///     bits 0-1   kind
///     bit  2     the rest is a time
///     bits 3-31  microseconds of the monotonic clock, modulo 536 s; or bits 3 and 4: see `isLent` and `isAwaited`
struct JobEntry: @unchecked Sendable {
  enum Kind: UInt32 {
    /// An `UnownedJob` to be run on the app's executor.
    case task = 0
    /// A retained ``Closure``.
    case closure = 1
    /// A retained ``Strand``: a strand that has jobs.
    case strand = 2
    /// A retained ``QueuedObject``.
    case object = 3
  }

  let pointer: UnsafeMutableRawPointer
  let tag: UInt32

  init(_ kind: Kind, _ pointer: UnsafeMutableRawPointer, queuedAt nanoseconds: UInt64?) {
    self.pointer = pointer
    if let nanoseconds {
      tag = kind.rawValue | 4 | UInt32(truncatingIfNeeded: nanoseconds / 1000) << 3
    } else {
      tag = kind.rawValue
    }
  }

  /// The same in a strand's bag.
  ///
  /// - Parameters:
  ///   - isLent: queued from work of an app of a higher band.
  ///   - isAwaited: counted among the waits for the strand's app.
  init(_ entry: JobEntry, isLent: Bool, isAwaited: Bool) {
    pointer = entry.pointer
    tag = entry.kind.rawValue | (isLent ? 8 : 0) | (isAwaited ? 16 : 0)
  }

  init(_ job: opp_job) {
    // A job is only ever made by the other initialiser, from a pointer.
    pointer = job.ptr.unsafelyUnwrapped
    tag = job.tag
  }

  var raw: opp_job { opp_job(ptr: pointer, tag: tag) }

  var kind: Kind { Kind(rawValue: tag & 3).unsafelyUnwrapped }

  /// Whether somebody in a higher band waits for it. In strands' bags there are no times.
  var isLent: Bool { tag & 12 == 8 }

  /// Whether another app's foreground work waits for it to begin. Likewise.
  var isAwaited: Bool { tag & 20 == 16 }

  /// Microseconds in the queue, if that was noted.
  func waited(until nanoseconds: UInt64) -> UInt64? {
    guard tag & 4 != 0 else { return nil }
    let now = UInt32(truncatingIfNeeded: nanoseconds / 1000) << 3
    return UInt64((now &- (tag & ~7)) >> 3)
  }
}

/// What runs itself when its entry is taken: an entry that has more to it than the other kinds.
class QueuedObject: @unchecked Sendable {
  /// What its account is kept under.
  let identity: UInt64

  init(identity: UInt64) { self.identity = identity }

  /// False where memory is short; then nothing was queued.
  func push(
    to owner: AppCore, _ place: OpaquePointer, rank: UInt8, source: OpaquePointer, stamp: UInt64?, by worker: Worker?
  ) -> Bool {
    let retained = Unmanaged<QueuedObject>.passRetained(self)
    let entry = JobEntry(.object, retained.toOpaque(), queuedAt: stamp)
    if owner.push(entry, to: place, rank: rank, source: source, by: worker) { return true }
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
