import Glibc
import OpportuneBase
import OpportuneFuzz
import OpportuneModels
import OpportuneScheduler

/// Random jobs of two apps on a real scheduler, with suspensions, changes of band and a shutdown, against
/// ``SchedulerModel``.
struct ExecutorProperty: ThreadsProperty {
  enum Forgotten { case suspension, job, turn }

  let name = "executor"
  let summary =
    "Each closure, task and actor's call of a scheduler runs once, or is cancelled once by the shutdown; none of an app "
    + "that is suspended; a strand's in turn; whatever is resumed, or given a donated band, gets done."
  let head = 8
  let grain = 3
  /// What is broken, so that the judge must find fault.
  var forgets: Forgotten?
  /// Seconds that anything may take: on a loaded machine, and less than what ends an execution.
  var patience = 16.0

  typealias World = ExecutorWorld

  static let stepsMax = 60
}

/// What a job does; the rest of its byte says where.
private enum Program: UInt8, CaseIterable {
  case nothing, spin, spinLonger, block, submit, submitMore, call, wait
}

/// A scheduler, two apps with a strand each, and the model.
///
/// `@unchecked Sendable`: jobs use what is thread-safe, the rest is touched by the driver's thread alone.
final class ExecutorWorld: ThreadsWorld, @unchecked Sendable {
  private let hand: Hand
  private let model = SchedulerModel()
  private let scheduler: Scheduler
  private let apps: [App]
  private let strands: [Strand]
  private let actors: [StrandActor]
  private let forgets: ExecutorProperty.Forgotten?
  private let ending: Int
  private var tasks: [AppTask<Void, Never>] = []
  private var bands: [Band] = [.foreground, .background]
  private var isClosed = false

  init(_ bytes: inout ByteSource, _ property: ExecutorProperty, _ log: inout StepLog) throws(Violation) {
    forgets = property.forgets
    hand = Hand(patience: property.patience)
    var configuration = SchedulerConfiguration()
    let width = 1 + bytes.below(3)
    configuration.workers = .fixed(width)
    configuration.quantum.quantum = bytes.choice([.milliseconds(1), .milliseconds(10)])
    configuration.quantum.recovery = bytes.choice(QuantumPolicy.Recovery.allCases)
    configuration.demotedLimitPerCore = 1 + bytes.below(4)
    configuration.spareDelay = bytes.choice([.microseconds(50), .microseconds(500)])
    configuration.collectsStatistics = true
    ending = bytes.below(3)
    do {
      scheduler = try Scheduler(configuration: configuration)
      apps = [try scheduler.makeApp(named: "app0"), try scheduler.makeApp(named: "app1", band: .background)]
      strands = [try apps[0].makeStrand(named: "strand0"), try apps[1].makeStrand(named: "strand1")]
    } catch { throw Violation("there is no scheduler: \(error)") }
    actors = strands.map(StrandActor.init)
    log.note(
      "a scheduler: \(width) workers, quantum \(configuration.quantum.quantum), \(configuration.quantum.recovery), "
        + "\(configuration.demotedLimitPerCore) demoted a core")
  }

  // MARK: Steps

  func step(_ bytes: inout ByteSource, _ log: inout StepLog) throws(Violation) {
    let (kind, app, argument) = (bytes.below(16), bytes.below(2), bytes.byte())
    let program = Program.allCases[Int(argument) % Program.allCases.count]
    let other = Int(argument / 8) % 2
    switch kind {
    case 0...2:
      log.note("job \(model.jobCount) of app\(app): a closure that does \(program), with app\(other)")
      submit(app, program, other)
    case 3...5:
      log.note("job \(model.jobCount) on strand \(app): a closure that does \(program), with app\(other)")
      submit(app, onStrand: true, program, other)
    case 6...8:
      log.note("job \(model.jobCount) of app\(app): a task that does \(program), with app\(other)")
      start(app, program, other)
    case 9, 10: try suspend(app, waits: kind == 9, &log)
    case 11, 12: resume(app, &log)
    case 13: try change(app, argument & 1 == 0 ? .foreground : .background, &log)
    case 14: try drain("what may run", &log)
    default: cancel(Int(argument), &log)
    }
    hand.run()
  }

  private func submit(_ app: Int, onStrand: Bool = false, _ program: Program, _ other: Int) {
    let job = model.submits(.closure, app: app, strand: onStrand ? app : nil)
    if forgets == .turn, onStrand, job % 4 == 0 {
      // Another goes first.
      model.submitted(job)
      submit(app, onStrand: true, .nothing, other)
    }
    let (body, cancelled): (@Sendable () -> Void, @Sendable () -> Void) = (
      { [self] in run(job, program, other) }, { [model] in model.cancelled(job) }
    )
    do {
      if onStrand {
        try strands[app].submit(onCancel: cancelled, body)
      } else {
        try apps[app].submit(onCancel: cancelled, body)
      }
      model.submitted(job)
    } catch { model.refused(job) }
  }

  /// The body of a closure.
  private func run(_ job: Int, _ program: Program, _ other: Int) {
    if forgets == .job, job % 8 == 7 { return }
    model.begins(job)
    switch program {
    case .nothing, .call: break
    case .spin: Hand.spin(microseconds: 30)
    case .spinLonger: Hand.spin(microseconds: 1500)
    case .block, .wait: usleep(200)
    case .submit: submit(other, .nothing, other)
    case .submitMore: for number in 0..<4 { submit(other, onStrand: number % 2 == 0, .nothing, other) }
    }
    model.ends(job)
  }

  private func start(_ app: Int, _ program: Program, _ other: Int) {
    let needs: Set<Int> = program == .call || program == .wait ? [other] : []
    let job = model.submits(.task, app: app, needs: needs)
    let (own, there) = (apps[app], apps[other])
    let task = own.task { [self] in
      model.begins(job)
      switch program {
      case .nothing: break
      case .spin: Hand.spin(microseconds: 30)
      case .spinLonger:
        for _ in 0..<5 {
          Hand.spin(microseconds: 300)
          await Task.yield()
          model.goesOn(job)
        }
      case .block: try? await own.clock.sleep(for: .microseconds(200))
      case .submit: submit(other, .nothing, other)
      case .submitMore: for number in 0..<4 { submit(other, onStrand: number % 2 == 0, .nothing, other) }
      case .call: await actors[other].call(model, job, strand: other)
      case .wait: await there.task {}.value  // lends its band
      }
      model.goesOn(job)
      model.ends(job)
    }
    tasks.append(task)
    model.submitted(job)
  }

  private func suspend(_ app: Int, waits: Bool, _ log: inout StepLog) throws(Violation) {
    log.note("suspend app\(app)\(waits ? ", and wait until it is quiet" : "")")
    model.suspends(app)
    let it = apps[app]
    if forgets != .suspension { it.suspend() }
    guard waits else { return }
    guard hand.wait(for: { await it.untilSuspended() }) != nil else {
      throw Violation("app\(app) does not come to be quiet in time")
    }
    // Not whether it is suspending: a worker that is about to find out that it may take no job shows for a
    // moment. That nothing runs the model sees.
    if forgets != .suspension, it.activity == .active {
      throw Violation("app\(app) is told to be quiet, and is \(it.activity)")
    }
    model.isQuiet(app)
  }

  private func resume(_ app: Int, _ log: inout StepLog) {
    log.note("resume app\(app)")
    model.resumes(app)
    apps[app].resume()
  }

  private func change(_ app: Int, _ band: Band, _ log: inout StepLog) throws(Violation) {
    log.note("app\(app) goes to band \(band)")
    do { try apps[app].setBand(band) } catch {
      throw Violation("app\(app) may not go to band \(band): \(error)")
    }
    bands[app] = band
  }

  private func cancel(_ pick: Int, _ log: inout StepLog) {
    guard !tasks.isEmpty else { return }
    log.note("cancel task \(pick % tasks.count) of \(tasks.count)")
    tasks[pick % tasks.count].cancel()
  }

  private func drain(_ what: String, _ log: inout StepLog) throws(Violation) {
    log.note("wait for \(what)")
    let came = hand.run { model.open().isEmpty }
    try judge(&log)
    if !came { throw Violation("jobs \(model.open()) do not end in time") }
  }

  func judge(_ log: inout StepLog) throws(Violation) {
    if let problem = model.problems.first { throw Violation(problem) }
    for (app, band) in zip(apps, bands) where app.band != band {
      throw Violation("\(app.name) was moved to band \(band), and is in \(app.band)")
    }
  }

  // MARK: The end

  func end(_ log: inout StepLog) throws(Violation) {
    if ending != 0 {
      for app in apps.indices { resume(app, &log) }
      try drain("all jobs", &log)
    }
    log.note("shut down")
    try shutDown()
    guard hand.run(until: { model.open(all: true).isEmpty }) else {
      try judge(&log)
      throw Violation("jobs \(model.open(all: true)) have no end after the shutdown")
    }
    try judge(&log)
    for (number, app) in apps.enumerated() {
      let told = (app.statistics.submitted, app.statistics.cancelled)
      let known = (
        UInt64(model.count(of: .closure, in: number)),
        UInt64(model.count(of: .closure, in: number, cancelled: true))
      )
      if told.1 != known.1 {
        throw Violation("\(app.name) counts \(told.1) cancelled closures, which were \(known.1)")
      }
      if told.0 > known.0 { throw Violation("\(app.name) counts \(told.0) closures, of \(known.0)") }
    }
  }

  private func shutDown() throws(Violation) {
    isClosed = true
    model.shutsDown()
    try hand.shutDown(scheduler)
  }

  /// Ends the scheduler in any case.
  func close() {
    if !isClosed { try? shutDown() }
  }
}

/// An actor on a strand.
private actor StrandActor {
  private let strand: Strand
  init(_ strand: Strand) { self.strand = strand }
  nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }

  func call(_ model: SchedulerModel, _ job: Int, strand number: Int) {
    model.enters(number, of: job)
    model.leaves(number)
  }
}
