internal import COpportune
import Synchronization

/// The quantum accounts of tasks, strands and closures, by identity, in the C core's lossy hash table.
///
/// Identities: a task has its id from the runtime. Closures and strands have a number of their own with a
/// high bit. A thread outside the pools has, for each app, a word made of both: its *origin*. An origin is
/// needed because the jobs of such a thread have no submitter whose level they could inherit.
///
/// Suspicion (docs/decisions/0022). An origin is *suspected* from when one of its fresh jobs uses up a
/// quantum until one of its jobs ends sooner. The jobs of a suspected origin are treated in one of two ways:
/// * Trusted: they start like all others, since the main thread submits hogs and keystrokes alike. Trusted
///   are jobs submitted at least a quantum after the origin's last hog was seen, and the first few after a
///   single hog. They are judged as soon as something waits behind them, and not only after a quantum.
/// * Held back: all others. They are lowered once, and begin beside the run tokens.
///
/// The cost of a lost entry is at most this: a forgotten hog starts again at its first level.
///
/// A noncopyable struct and not a class: every slice uses it, on all cores, and would change a shared
/// reference count.
struct DemotionAccounts: ~Copyable, @unchecked Sendable {
  // The tables are lock-free.
  private let table: OpaquePointer
  private let origins: OpaquePointer
  /// Suspected origins: the word of a ``Suspect`` by origin.
  private let suspects: OpaquePointer
  private let bands: Bands
  private let policy: QuantumPolicy
  /// Whether any origin may be suspected; a hint that saves a table lookup.
  private let hasSuspects = Atomic<Bool>(false)

  static let entries: UInt32 = 1 << 15
  private static let suspectedOrigins: UInt32 = 1 << 10
  static let closureBit: UInt64 = 1 << 62
  static let strandBit: UInt64 = 1 << 61
  static let originBit: UInt64 = 1 << 63

  /// Whether the identity is a task's.
  static func isTask(_ identity: UInt64) -> Bool {
    identity != 0 && identity & (closureBit | strandBit | originBit) == 0
  }

  init(_ configuration: SchedulerConfiguration) throws(SchedulerError) {
    guard let table = opp_table_create(Self.entries), let origins = opp_table_create(Self.entries),
      let suspects = opp_table_create(Self.suspectedOrigins)
    else {
      throw SchedulerError(.outOfMemory, "no memory for the table of accounts")
    }
    self.table = table
    self.origins = origins
    self.suspects = suspects
    bands = configuration.bands
    policy = configuration.quantum
  }

  deinit {
    opp_table_destroy(table)
    opp_table_destroy(origins)
    opp_table_destroy(suspects)
  }

  var evictions: UInt64 { opp_table_evictions(table) }

  func read(_ identity: UInt64) -> DemotionAccount? {
    let bits = bits(of: identity)
    return bits == 0 ? nil : DemotionAccount(bits: bits)
  }

  /// The account as ``DemotionAccount/bits``; 0 where there is none.
  func bits(of identity: UInt64) -> UInt64 { identity == 0 ? 0 : opp_table_get(table, identity) }

  private func write(_ account: DemotionAccount, _ identity: UInt64) {
    opp_table_put(table, identity, max(account.bits, 1))
  }

  /// The origin of the calling thread in `app`. Not derived from the thread's producer: another thread reuses
  /// that after this thread's end, and would inherit the suspicion.
  static func origin(_ thread: UInt64 = opp_thread_number(), in app: AppCore) -> UInt64 {
    originBit | (thread &* 0x9E37_79B9_7F4A_7C15) ^ app.number
  }

  // MARK: At a submission

  /// The depth at which a job that is queued now starts. It is the depth of the job's account, after what
  /// idleness restores. Without an account it is the depth of the demoted job that submits it. Otherwise it
  /// is 1 if the job is held back for its origin, else 0.
  ///
  /// - Parameter movesOn: whether the task itself continues elsewhere, after a hop or a yield. It was queued
  ///   or running all the time, under another identity, so it was not idle. (R-CPU-08)
  func depth(ofQueued identity: UInt64, submitter: Worker?, movesOn: Bool, origin: UInt64?, app: AppCore)
    -> Int
  {
    guard identity != 0 else { return submitter?.app === app ? submitter?.depth ?? 0 : 0 }
    if let submitter, submitter.identity == identity {
      // The task queues itself from within its slice, so it was not idle. Its account does not include the
      // running slice yet.
      return max(read(identity)?.depth ?? 0, submitter.depth)
    }
    if var account = read(identity) {
      guard !movesOn, account.depth > 0 || account.cpuNanoseconds > 0 else { return account.depth }
      let before = account
      let verdict = account.began(idleBefore: account.idle(until: opp_now_ns()), policy: policy)
      if case .restore(let steps) = verdict { app.statistics.add(.restored, UInt64(steps), in: app.band) }
      // Even if no level was restored, the task was blocked and begins a new quantum.
      if account != before { write(account, identity) }
      return account.depth
    }
    return depth(ofNew: identity, submitter: submitter, origin: origin, app: app)
  }

  /// The start depth of a job without an account, such as a closure; see depth(ofQueued:).
  func depth(ofNew identity: UInt64, submitter: Worker?, origin: UInt64?, app: AppCore) -> Int {
    var depth = 0
    if let submitter {
      guard submitter.app === app else { return 0 }
      depth = submitter.depth
    } else if let origin {
      opp_table_put(origins, identity, origin)
      if hasSuspects.load(ordering: .relaxed), let suspect = suspicion(of: origin) {
        if trust(suspect, origin, at: opp_now_ns(), app.engine.pool(of: app.band)) {
          // With an account of its own it is not held back when it is taken.
          write(DemotionAccount(), identity)
        } else {
          depth = 1
        }
      }
    }
    if depth > 0 { write(DemotionAccount(depth: depth, at: opp_now_ns()), identity) }
    return depth
  }

  // MARK: At a slice

  /// The depth at which a job runs that was queued some time ago: that of its account by now; or 1, if it is
  /// held back for its origin.
  ///
  /// - Parameter account: the result of ``bits(of:)``, read once for this call and ``begin(_:_:at:)``.
  @inline(__always) func depth(ofTaken identity: UInt64, _ account: UInt64) -> Int {
    account != 0 ? DemotionAccount(bits: account).depth : isSuspected(identity) ? 1 : 0
  }

  /// Whether the job's origin is suspected.
  @inline(__always) func isSuspected(_ identity: UInt64) -> Bool { suspicion(ofJob: identity) != nil }

  /// Whether a held-back job may be a short one: its origin has had few hogs in a row.
  func mayBeShort(_ identity: UInt64) -> Bool {
    suspicion(ofJob: identity).map { $0.hogs <= 2 * Suspect.trustedMax } ?? false
  }

  @inline(__always) private func suspicion(ofJob identity: UInt64) -> Suspect? {
    // relaxed: a hint that saves a table lookup.
    guard hasSuspects.load(ordering: .relaxed), identity != 0 else { return nil }
    return suspicion(of: opp_table_get(origins, identity))
  }

  /// The record of an origin; `nil` where the origin is not suspected.
  private func suspicion(of origin: UInt64) -> Suspect? {
    let word = origin != 0 ? opp_table_get(suspects, origin) : 0
    return word == 0 ? nil : Suspect(word: word)
  }

  /// Decides whether a new job of a suspected origin is trusted. Returns false if the job is held back.
  ///
  /// Trusted are jobs after a single hog, or a quantum or more after the last hog. The number of trusted jobs
  /// that have not yet shown what they are is limited, also by the room beside the run tokens in case they
  /// are hogs. Otherwise a flood of hogs would occupy all run tokens, and all other work would wait.
  private func trust(_ suspect: Suspect, _ origin: UInt64, at now: UInt64, _ pool: PoolState?) -> Bool {
    guard suspect.hogs <= 1 || now.saturatingSubtract(suspect.seen) >= UInt64(policy.quantumNanoseconds),
      suspect.trusted < Suspect.trustedMax,
      pool?.hasRoom(.OPP_DEMOTION_FOUND, beside: suspect.trusted) ?? true
    else { return false }
    // Not atomic with the read: a change by a worker or the monitor may be lost. Then one job more or less is
    // trusted.
    var trusting = suspect
    trusting.trusted += 1
    opp_table_put(suspects, origin, trusting.word)
    return true
  }

  /// The record of a suspected origin, in a word that is not 0.
  private struct Suspect {
    /// Trusted jobs that have neither ended nor been found to be hogs. The limit is what a person's input may
    /// amount to while a hog runs.
    var trusted: Int
    /// How many hogs were seen in a row.
    var hogs: Int
    /// When the last hog was seen, in nanoseconds, rounded.
    var seen: UInt64

    static let trustedMax = 4
    private static let most = 15

    init(word: UInt64) {
      (trusted, hogs, seen) = (Int(word & 15), Int(word >> 4 & 15), word & ~255)
    }

    var word: UInt64 { seen & ~255 | UInt64(hogs) << 4 | UInt64(trusted) }

    mutating func wasHog(at now: UInt64) {
      (trusted, hogs, seen) = (max(0, trusted - 1), min(hogs + 1, Self.most), now)
    }
  }

  /// A slice begins. Until it ends, a job queued for the same task counts as not idle before. Returns true if
  /// there is an account; the caller must then report the end of the slice.
  @inline(__always) func begin(_ identity: UInt64, _ bits: UInt64, at now: UInt64) -> Bool {
    guard bits != 0 else { return false }
    goesOn(identity, bits, at: now)
    return true
  }

  private func goesOn(_ identity: UInt64, _ bits: UInt64, at now: UInt64) {
    var account = DemotionAccount(bits: bits)
    account.ended(at: now + Self.whileRunning)
    write(account, identity)
  }

  /// 30 minutes in nanoseconds. An end that lies so far in the future means "not ended yet".
  private static let whileRunning: UInt64 = 1_800_000_000_000

  /// Charges a slice that has ended.
  ///
  /// - Parameters:
  ///   - begun: the depth at which the slice began.
  ///   - depth: the depth at its end. The monitor has already counted the demotions in between.
  ///   - offSeen: time off the CPU that the monitor knew of at the last of them, in nanoseconds.
  func charge(
    _ identity: UInt64, cpu: UInt64, offCPU: UInt64, offSeen: UInt64 = 0, at now: UInt64, from begun: Int,
    to depth: Int, base: Int, band: Band, statistics: StatisticsBlock?
  ) {
    guard identity != 0 else { return }
    var account = read(identity) ?? DemotionAccount(depth: begun, at: now)
    let verdict = account.slice(
      from: begun, seen: depth, cpu: cpu, offCPU: offCPU, offSeen: offSeen, policy: policy,
      depthMax: bands.depthMax(of: band, rank: base))
    account.ended(at: now)
    // A closure runs only once; its account would only evict others.
    if identity & Self.closureBit == 0 { write(account, identity) } else { opp_table_remove(table, identity) }
    switch verdict {
    case .lower(let steps): statistics?.add(.demotions, UInt64(steps), in: band)
    case .restore(let steps): statistics?.add(.restored, UInt64(steps), in: band)
    case .none: break
    }
    if cpu < UInt64(policy.quantumNanoseconds) {
      clear(originOf: identity)
    } else if depth == 0 {  // else the monitor has reported it
      suspect(originOf: identity, at: now)
    }
  }

  /// Records that a job which began undemoted is a hog; the job may still be running.
  func suspect(originOf identity: UInt64, at now: UInt64) {
    let origin = opp_table_get(origins, identity)
    guard origin != 0 else { return }
    var suspect = Suspect(word: opp_table_get(suspects, origin))
    suspect.wasHog(at: now)
    opp_table_put(suspects, origin, suspect.word)
    hasSuspects.store(true, ordering: .relaxed)  // a hint, never reset
  }

  /// Restores levels for a sleep that ended before its slice did. The slice has been charged by now.
  func hasBeenIdle(_ identity: UInt64, for idle: UInt64, band: Band, statistics: StatisticsBlock?) {
    guard var account = read(identity) else { return }
    let verdict = account.began(idleBefore: idle, policy: policy)
    if case .restore(let steps) = verdict { statistics?.add(.restored, UInt64(steps), in: band) }
    write(account, identity)
  }

  /// A slice has ended that was too short to be charged. `now` is nil where there is no account to update.
  @inline(__always) func endedSoon(_ identity: UInt64, at now: UInt64?) {
    if let now, identity & Self.closureBit == 0 { ended(identity, at: now) }
    clear(originOf: identity)
  }

  private func ended(_ identity: UInt64, at now: UInt64) {
    guard var account = read(identity) else { return }
    account.ended(at: now)
    write(account, identity)
  }

  /// Records that a job of this origin was a short one.
  @inline(__always) private func clear(originOf identity: UInt64) {
    if hasSuspects.load(ordering: .relaxed), identity != 0 { clearSuspect(identity) }
  }

  private func clearSuspect(_ identity: UInt64) {
    let origin = opp_table_get(origins, identity)
    if origin != 0 { opp_table_remove(suspects, origin) }
  }

  /// The depth of a running job after what its slice has used so far. Changes nothing.
  func depth(ofRunning identity: UInt64, from depth: Int, cpu: UInt64, offCPU: UInt64, base: Int, band: Band)
    -> Int
  {
    var account = read(identity) ?? DemotionAccount(depth: depth, at: 0)
    _ = account.running(
      cpu: cpu, offCPU: offCPU, policy: policy, depthMax: bands.depthMax(of: band, rank: base))
    return max(depth, account.depth)
  }
}
