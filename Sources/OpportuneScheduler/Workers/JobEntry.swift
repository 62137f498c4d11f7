internal import COpportune
internal import COpportuneRuntime

/// An entry of the run queue for one job: a pointer whose low bits tell the kind of its target, and a tag.
/// The tag has the job's base priority and, for one job in eight, the time of queueing. The depth of demotion
/// follows from base and rank.
///
///     pointer, bits 0-1  kind
///     tag, bits 0-2      base
///          bits 3-31     microseconds of the monotonic clock, modulo 536 s; 0 if no time was taken
///
/// Entries of a strand's queue have neither base nor time: see `isDonated` and `isAwaited`.
struct JobEntry: @unchecked Sendable {
  enum Kind: UInt {
    /// An `UnownedJob` that runs on the app's executor.
    case task = 0
    /// A retained ``Closure``.
    case closure = 1
    /// A retained ``Strand`` that has jobs: the strand's token in its own app.
    case strand = 2
    /// A retained ``QueuedObject``.
    case object = 3
  }

  let raw: opp_job

  /// - Parameter pointer: an object of the Swift runtime or a Swift class; both are aligned to 16 bytes.
  init(_ kind: Kind, _ pointer: UnsafeMutableRawPointer, base: BasePriority, queuedAt nanoseconds: UInt64?) {
    let time = nanoseconds.map { max(1, UInt32(truncatingIfNeeded: $0 / 1000) & 0x1FFF_FFFF) } ?? 0
    self.init(kind, pointer, tag: UInt32(base.index) | time << 3)
  }

  /// An entry of a strand's queue.
  init(_ kind: Kind, _ pointer: UnsafeMutableRawPointer) { self.init(kind, pointer, tag: 0) }

  private init(_ kind: Kind, _ pointer: UnsafeMutableRawPointer, tag: UInt32) {
    raw = opp_job(
      ptr: UnsafeMutableRawPointer(bitPattern: UInt(bitPattern: pointer) | kind.rawValue), tag: tag)
  }

  /// The same entry with the flags of a strand's queue.
  ///
  /// - Parameters:
  ///   - isDonated: queued by work of an app of a higher band.
  ///   - isAwaited: counted among the waits for the strand's app.
  init(_ entry: JobEntry, isDonated: Bool, isAwaited: Bool) {
    raw = opp_job(ptr: entry.raw.ptr, tag: (isDonated ? 1 : 0) | (isAwaited ? 2 : 0))
  }

  init(_ job: opp_job) { raw = job }

  // Never nil: an entry is only ever made by these initialisers, from a pointer.
  var pointer: UnsafeMutableRawPointer {
    UnsafeMutableRawPointer(bitPattern: UInt(bitPattern: raw.ptr) & ~3).unsafelyUnwrapped
  }

  @inline(__always) var kind: Kind { Kind(rawValue: UInt(bitPattern: raw.ptr) & 3).unsafelyUnwrapped }

  /// The key of this job's account; 0 for jobs that have none.
  var identity: UInt64 {
    switch kind {
    case .task: opp_runtime_task_id(pointer)
    case .closure: Unmanaged<Closure>.fromOpaque(pointer)._withUnsafeGuaranteedRef { $0.identity }
    case .strand: Unmanaged<Strand>.fromOpaque(pointer)._withUnsafeGuaranteedRef { $0.identity }
    case .object: Unmanaged<QueuedObject>.fromOpaque(pointer)._withUnsafeGuaranteedRef { $0.identity }
    }
  }

  var base: BasePriority { BasePriority(index: UInt8(raw.tag & 7)) }

  /// Whether an app of a higher band waits for the job. Strands' queues only.
  var isDonated: Bool { raw.tag & 1 != 0 }

  /// Whether the job is counted as another app's wait until it begins. Strands' queues only.
  var isAwaited: Bool { raw.tag & 2 != 0 }

  /// Microseconds that the job has waited in the queue; nil if no time was taken.
  ///
  /// - Parameter nanoseconds: when the job begins. A worker that goes from job to job takes the end of the
  ///   last one for it, and the job may have been queued since: up to 16 s before the queueing count as no
  ///   wait.
  func waited(until nanoseconds: UInt64) -> UInt64? {
    guard raw.tag >> 3 != 0 else { return nil }
    let waited = (UInt32(truncatingIfNeeded: nanoseconds / 1000) &- raw.tag >> 3) & 0x1FFF_FFFF
    return waited > 0x1FFF_FFFF - 1 << 24 ? 0 : UInt64(waited)
  }
}

/// A queue entry with state of its own, beyond what the other kinds hold; it runs itself when it is taken.
class QueuedObject: @unchecked Sendable {
  /// The key of its account.
  let identity: UInt64
  let base: BasePriority

  init(identity: UInt64, base: BasePriority) {
    self.identity = identity
    self.base = base
  }

  /// Queues an entry for the object, which the entry retains.
  ///
  /// - Parameter raised: the base priority of this entry, where it differs from the object's.
  /// - Returns: false where memory is short; then nothing was queued.
  func push(
    to owner: AppCore, _ queue: OpaquePointer, _ band: Band, as raised: BasePriority? = nil, rank: UInt8,
    producer: OpaquePointer, stamp: UInt64?, by worker: Worker?
  ) -> Bool {
    let retained = Unmanaged<QueuedObject>.passRetained(self)
    let entry = JobEntry(.object, retained.toOpaque(), base: raised ?? base, queuedAt: stamp)
    if owner.push(entry, to: queue, band, rank: rank, producer: producer, by: worker) { return true }
    retained.release()
    return false
  }

  /// Called by the worker that has taken the entry.
  func run(on worker: Worker) {}

  /// Called when the scheduler has ended.
  func abandon() {}
}

/// A queued closure. Exactly one of its two functions is called.
final class Closure: Sendable {
  let app: AppCore
  /// Used in place of a task id in the table of accounts.
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
