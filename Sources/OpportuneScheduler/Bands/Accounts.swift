internal import COpportune
import Synchronization

/// The accounts of tasks, strands and closures, by identity, in the C core's forgetful table.
///
/// Identities: a task's id as the runtime gives it; a closure's and a strand's own number with a high bit;
/// for a thread outside the pools, in one app, a word made of both (its *origin*): what such a thread submits
/// has no submitter whose level it could start at. An origin is *suspected* from when a fresh job of its uses
/// up a quantum until one of its jobs ends sooner. Suspected jobs start like all others, since the main
/// thread submits hogs and keystrokes alike, if they were submitted a quantum after the last hog of their
/// origin was seen, or are among the first few after a single one; but they are judged as soon as something
/// waits behind them, and not after a quantum. Until then they are lowered once, and begin beside the tokens.
/// (docs/decisions/0022)
///
/// Forgetting costs at most this: a hog that was forgotten starts again at its first level.
///
/// No class: every slice asks, on all cores, and would count the references up and down.
struct Accounts: ~Copyable, @unchecked Sendable {
  // The tables are lock-free.
  private let table: OpaquePointer
  private let origins: OpaquePointer
  /// The word of a ``Suspect`` by origin that is suspected.
  private let suspects: OpaquePointer
  private let bands: Bands
  private let policy: QuantumPolicy
  /// Whether any origin may be suspected: a hint that saves looking.
  private let hasSuspects = Atomic<Bool>(false)

  static let entries: UInt32 = 1 << 15
  private static let suspectedOrigins: UInt32 = 1 << 10
  static let closureBit: UInt64 = 1 << 62
  static let strandBit: UInt64 = 1 << 61
  static let originBit: UInt64 = 1 << 63

  /// Whether it is a task's.
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

  func read(_ identity: UInt64) -> QuantumAccount? {
    let bits = bits(of: identity)
    return bits == 0 ? nil : QuantumAccount(bits: bits)
  }

  /// An account as ``QuantumAccount/bits`` has it; 0 where there is none.
  func bits(of identity: UInt64) -> UInt64 { identity == 0 ? 0 : opp_table_get(table, identity) }

  private func write(_ account: QuantumAccount, _ identity: UInt64) {
    opp_table_put(table, identity, max(account.bits, 1))
  }

  /// The calling thread's, in `app`. Not made from the thread's producer, which another thread takes over
  /// when this one has ended, and with it would take over the blame.
  static func origin(_ thread: UInt64 = opp_thread_number(), in app: AppCore) -> UInt64 {
    originBit | (thread &* 0x9E37_79B9_7F4A_7C15) ^ app.number
  }

  // MARK: At a submission

  /// The depth at which a job starts that is queued now: its own, after what idleness restores; else what it
  /// inherits from the demoted job that submits it; else one, where it is held back for its origin.
  ///
  /// - Parameter movesOn: whether it is the task itself that goes on elsewhere: it has hopped, or yielded and
  ///   its turn has come. It was queued or running all the time, under another name, so nothing was idle.
  ///   (R-CPU-08)
  func depth(ofQueued identity: UInt64, submitter: Worker?, movesOn: Bool, origin: UInt64?, app: AppCore)
    -> Int
  {
    guard identity != 0 else { return submitter?.app === app ? submitter?.depth ?? 0 : 0 }
    if let submitter, submitter.identity == identity {
      // It queues itself from within its slice: nothing was idle, and the account does not know of the slice
      // yet.
      return max(read(identity)?.depth ?? 0, submitter.depth)
    }
    if var account = read(identity) {
      guard !movesOn, account.depth > 0 || account.cpuNanoseconds > 0 else { return account.depth }
      let before = account
      let verdict = account.began(idleBefore: account.idle(until: opp_now_ns()), policy: policy)
      if case .restore(let steps) = verdict { app.statistics.add(.restored, UInt64(steps), in: app.band) }
      // Where no level was lost it was blocked all the same, and begins a new quantum.
      if account != before { write(account, identity) }
      return account.depth
    }
    return depth(ofNew: identity, submitter: submitter, origin: origin, app: app)
  }

  /// The same of what has no account yet, as a closure has none.
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
          write(QuantumAccount(), identity)
        } else {
          depth = 1
        }
      }
    }
    if depth > 0 { write(QuantumAccount(depth: depth, at: opp_now_ns()), identity) }
    return depth
  }

  // MARK: At a slice

  /// The depth at which a job is to run that was queued some time ago: its account's by now, or one, where it
  /// is held back for its origin.
  ///
  /// - Parameter account: ``bits(of:)`` the job, read once for this and ``begin(_:_:at:)``.
  @inline(__always) func depth(ofTaken identity: UInt64, _ account: UInt64) -> Int {
    account != 0 ? QuantumAccount(bits: account).depth : isSuspected(identity) ? 1 : 0
  }

  /// Whether the job's origin is suspected.
  @inline(__always) func isSuspected(_ identity: UInt64) -> Bool { suspicion(ofJob: identity) != nil }

  /// Whether a job that is held back for its origin may be short: that has had few hogs in a row.
  func mayBeShort(_ identity: UInt64) -> Bool {
    suspicion(ofJob: identity).map { $0.hogs <= 2 * Suspect.trustedMax } ?? false
  }

  @inline(__always) private func suspicion(ofJob identity: UInt64) -> Suspect? {
    // relaxed: a hint that saves looking.
    guard hasSuspects.load(ordering: .relaxed), identity != 0 else { return nil }
    return suspicion(of: opp_table_get(origins, identity))
  }

  /// What is known of an origin; `nil` where it is not suspected.
  private func suspicion(of origin: UInt64) -> Suspect? {
    let word = origin != 0 ? opp_table_get(suspects, origin) : 0
    return word == 0 ? nil : Suspect(word: word)
  }

  /// Trusts what a suspected origin submits now where it may as well be a short job: after a single hog, or
  /// none for a quantum. Only so many at a time that have not shown what they are, and where there is room
  /// for them beside the tokens if they are hogs: else each of a flood would keep its token, and everybody
  /// would wait. False where it is held back.
  private func trust(_ suspect: Suspect, _ origin: UInt64, at now: UInt64, _ pool: PoolState?) -> Bool {
    guard suspect.hogs <= 1 || now.saturatingSubtract(suspect.seen) >= UInt64(policy.quantumNanoseconds),
      suspect.trusted < Suspect.trustedMax,
      pool?.hasRoom(.OPP_DEMOTION_FOUND, beside: suspect.trusted) ?? true
    else { return false }
    // A worker or the monitor may have changed it meanwhile; a change that is lost trusts one job more or
    // less.
    var trusting = suspect
    trusting.trusted += 1
    opp_table_put(suspects, origin, trusting.word)
    return true
  }

  /// What is known of a suspected origin, in a word that is not 0.
  private struct Suspect {
    /// How many of its jobs were trusted and have not shown what they are. As many as a person's input may
    /// come to while a hog runs.
    var trusted: Int
    /// How many hogs were seen in a row.
    var hogs: Int
    /// When the last was, in nanoseconds, rounded.
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

  /// A slice begins: until its end nothing that is queued for the task has been idle before. True if it has
  /// an account, which is to be told of the end.
  @inline(__always) func begin(_ identity: UInt64, _ bits: UInt64, at now: UInt64) -> Bool {
    guard bits != 0 else { return false }
    goesOn(identity, bits, at: now)
    return true
  }

  private func goesOn(_ identity: UInt64, _ bits: UInt64, at now: UInt64) {
    var account = QuantumAccount(bits: bits)
    account.ended(at: now + Self.whileRunning)
    write(account, identity)
  }

  /// An end that far in the future reads as "not ended yet", for half an hour.
  private static let whileRunning: UInt64 = 1_800_000_000_000

  /// Charges a slice that has ended.
  ///
  /// - Parameters:
  ///   - begun: how deep it began.
  ///   - depth: how deep it ran at last; what the monitor has lowered meanwhile is counted already.
  func charge(
    _ identity: UInt64, cpu: UInt64, offCPU: UInt64, at now: UInt64, from begun: Int, to depth: Int,
    base: Int,
    band: Band, statistics: StatisticsBlock?
  ) {
    guard identity != 0 else { return }
    var account = read(identity) ?? QuantumAccount(depth: begun, at: now)
    let verdict = account.slice(
      from: begun, seen: depth, cpu: cpu, offCPU: offCPU, policy: policy,
      depthMax: bands.depthMax(of: band, rank: base))
    account.ended(at: now)
    // A closure does not come back, and would only drive out others.
    if identity & Self.closureBit == 0 { write(account, identity) } else { opp_table_remove(table, identity) }
    switch verdict {
    case .lower(let steps): statistics?.add(.demotions, UInt64(steps), in: band)
    case .restore(let steps): statistics?.add(.restored, UInt64(steps), in: band)
    case .none: break
    }
    if cpu < UInt64(policy.quantumNanoseconds) {
      clear(originOf: identity)
    } else if depth == 0 {  // else the monitor has told
      suspect(originOf: identity, at: now)
    }
  }

  /// The origin of a job that began as a fresh one learns that it is a hog, maybe while it still runs.
  func suspect(originOf identity: UInt64, at now: UInt64) {
    let origin = opp_table_get(origins, identity)
    guard origin != 0 else { return }
    var suspect = Suspect(word: opp_table_get(suspects, origin))
    suspect.wasHog(at: now)
    opp_table_put(suspects, origin, suspect.word)
    hasSuspects.store(true, ordering: .relaxed)  // a hint, which stays
  }

  /// What a slice was suspended for has ended before the slice itself, which is charged by now.
  func hasBeenIdle(_ identity: UInt64, for idle: UInt64, band: Band, statistics: StatisticsBlock?) {
    guard var account = read(identity) else { return }
    let verdict = account.began(idleBefore: idle, policy: policy)
    if case .restore(let steps) = verdict { statistics?.add(.restored, UInt64(steps), in: band) }
    write(account, identity)
  }

  /// A slice has ended that was too short to be charged; at `now`, where there is an account to tell.
  @inline(__always) func endedSoon(_ identity: UInt64, at now: UInt64?) {
    if let now, identity & Self.closureBit == 0 { ended(identity, at: now) }
    clear(originOf: identity)
  }

  private func ended(_ identity: UInt64, at now: UInt64) {
    guard var account = read(identity) else { return }
    account.ended(at: now)
    write(account, identity)
  }

  /// The origin of a job learns that it was a short one.
  @inline(__always) private func clear(originOf identity: UInt64) {
    if hasSuspects.load(ordering: .relaxed), identity != 0 { clearSuspect(identity) }
  }

  private func clearSuspect(_ identity: UInt64) {
    let origin = opp_table_get(origins, identity)
    if origin != 0 { opp_table_remove(suspects, origin) }
  }

  /// The depth of a job that is still running, after what its slice has used so far. Changes nothing.
  func depth(ofRunning identity: UInt64, from depth: Int, cpu: UInt64, offCPU: UInt64, base: Int, band: Band)
    -> Int
  {
    var account = read(identity) ?? QuantumAccount(depth: depth, at: 0)
    _ = account.running(
      cpu: cpu, offCPU: offCPU, policy: policy, depthMax: bands.depthMax(of: band, rank: base))
    return max(depth, account.depth)
  }
}
