internal import COpportune
import Synchronization

/// A scheduler that is started to verify the rest of the diagnosis: the kernel may report that an operation
/// is allowed, and behave differently.
///
/// Every job ends by itself, and the shutdown at the end has a deadline, so the test never hangs.
struct SelfTest {
  /// What the test's jobs have observed.
  final class Outcome: Sendable {
    let foreground = Atomic<Int>(-1)
    let background = Atomic<Int>(-1)
    let ranSuspended = Atomic<Bool>(false)
    let cancelled = Atomic<Bool>(false)

    /// The initial value of each observation.
    static let unseen = -1

    /// Stores the class and nice value of the calling thread as one number.
    static func note(_ place: borrowing Atomic<Int>) { place.store(classOfThread(), ordering: .relaxed) }

    static func classOfThread() -> Int {
      var parameters = opp_sched_params()
      guard opp_thread_get_sched(0, &parameters) == 0 else { return unseen }
      return pack(
        parameters.policy == OPP_CLASS_IDLE, parameters.policy == OPP_CLASS_RR, Int(parameters.nice))
    }

    static func pack(_ isIdle: Bool, _ isRealTime: Bool, _ nice: Int) -> Int {
      // Nice applies to the normal class only.
      isRealTime ? 2000 : isIdle ? 1000 : nice + 100
    }
  }

  /// The result of the test.
  struct Result: Sendable {
    /// Why the test is incomplete; nil where it ran to its end.
    var failure: String?
    /// Whether the pools' threads have the expected class; nil where no job has run there.
    var foregroundIsAsSaid: Bool?
    var backgroundIsAsSaid: Bool?
    var demotions: UInt64 = 0
    var suspensionHeld = false
    var escapes: UInt64 = 0
  }

  /// The number of tasks that are made to escape.
  static let escapes = 3

  static func run(_ configuration: SchedulerConfiguration) async -> Result {
    var configuration = configuration
    configuration.name = "self-test"
    configuration.countsEscapes = true
    configuration.collectsStatistics = true
    var result = Result()
    let outcome = Outcome()
    do throws(SchedulerError) {
      let scheduler = try Scheduler(configuration: configuration)
      let foreground = try scheduler.makeApp(named: "foreground")
      let background = try scheduler.makeApp(named: "background", band: .background)
      let hog = try scheduler.makeApp(named: "hog")
      let suspended = try scheduler.makeApp(named: "suspended")
      try foreground.submit { Outcome.note(outcome.foreground) }
      try background.submit { Outcome.note(outcome.background) }
      suspended.suspend()
      try suspended.submit(
        onCancel: { outcome.cancelled.store(true, ordering: .relaxed) },
        { outcome.ranSuspended.store(true, ordering: .relaxed) })
      let quantum = UInt64(configuration.quantum.quantumNanoseconds)
      try hog.submit { useCPU(nanoseconds: 3 * quantum) }
      foreground.task { for _ in 0..<escapes { Task {} } }
      try await scheduler.shutdown(within: .seconds(10))
      result.demotions = hog.statistics.demotions
      result.escapes = foreground.statistics.escapes
      let engine = scheduler.engine
      result.foregroundIsAsSaid = compare(outcome.foreground, engine.priority(of: .foreground))
      result.backgroundIsAsSaid = compare(outcome.background, engine.priority(of: .background))
    } catch {
      result.failure = error.description
    }
    result.suspensionHeld =
      outcome.cancelled.load(ordering: .relaxed) && !outcome.ranSuspended.load(ordering: .relaxed)
    return result
  }

  private static func compare(_ seen: borrowing Atomic<Int>, _ wanted: KernelPriority) -> Bool? {
    let seen = seen.load(ordering: .relaxed)
    let expected = Outcome.pack(wanted.policy == .idle, wanted.policy == .roundRobin, wanted.nice)
    return seen == Outcome.unseen ? nil : seen == expected
  }

  private static func useCPU(nanoseconds: UInt64) {
    guard let meter = opp_thread_meter_create() else { return }
    defer { opp_thread_meter_destroy(meter) }
    var first: UInt64 = 0
    var now: UInt64 = 0
    guard opp_thread_meter_cpu(meter, &first) == 0 else { return }
    while opp_thread_meter_cpu(meter, &now) == 0, now &- first < nanoseconds { opp_pause() }
  }
}

extension SelfTest.Result {
  /// - Parameter hasHook: whether this runtime allows to count escapes.
  func findings(hasHook: Bool) -> [Diagnosis.Finding] {
    if let failure {
      return [
        .init(
          .selfTest, "Scheduler", .missing, found: failure,
          cost: "Programs that use Opportune fail likewise here.")
      ]
    }
    return [pools, demotion, suspension] + (hasHook ? [escaped] : [])
  }

  private var pools: Diagnosis.Finding {
    switch (foregroundIsAsSaid, backgroundIsAsSaid) {
    case (true?, true?):
      return .init(.selfTest, "Pools", .ok, found: "jobs of both bands ran, in the classes named above")
    case (nil, _), (_, nil):
      return .init(
        .selfTest, "Pools", .missing, found: "jobs did not run, or could not read their class",
        cost: "Nothing is known of the pools.")
    default:
      let wrong = foregroundIsAsSaid == false ? "foreground" : "background"
      return .init(
        .selfTest, "Pools", .degraded, found: "a \(wrong) job ran in another class than the one named above",
        cost: "Foreground and background compete as the kernel pleases.")
    }
  }

  private var demotion: Diagnosis.Finding {
    demotions > 0
      ? .init(.selfTest, "Demotion", .ok, found: "a job that used three quanta lost \(demotions) levels")
      : .init(
        .selfTest, "Demotion", .degraded, found: "a job that used three quanta was not demoted",
        cost: "Jobs that use up the CPU are not told from others here, or the machine is too busy to tell.")
  }

  private var suspension: Diagnosis.Finding {
    suspensionHeld
      ? .init(.selfTest, "Suspension", .ok, found: "a suspended app started nothing")
      : .init(
        .selfTest, "Suspension", .missing, found: "a suspended app's job ran, or was lost",
        cost: "Suspended apps are not held back.")
  }

  private var escaped: Diagnosis.Finding {
    let made = UInt64(SelfTest.escapes)
    return escapes == made
      ? .init(
        .selfTest, "Escapes", .ok, found: "\(made) tasks left an app for the global pool; all were counted")
      : .init(
        .selfTest, "Escapes", .degraded,
        found: "\(made) tasks left an app for the global pool; \(escapes) were counted",
        cost: "Statistics of escapes are wrong.")
  }
}

extension Diagnosis {
  /// Like ``run(configuration:)``, with a scheduler that is started to verify the findings.
  ///
  /// Takes about 50 ms of CPU time. From the first call on, the process's tasks pass through the runtime's
  /// enqueue hook.
  public static func runWithSelfTest(
    configuration: SchedulerConfiguration = SchedulerConfiguration()
  ) async -> Diagnosis {
    let facts = SystemFacts.read()
    var diagnosis = Diagnosis(facts, configuration: configuration)
    diagnosis.findings += await SelfTest.run(configuration).findings(hasHook: facts.hasEnqueueHook)
    return diagnosis
  }
}
