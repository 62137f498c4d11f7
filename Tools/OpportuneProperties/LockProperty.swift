import Glibc
import OpportuneBase
import OpportuneFuzz
import OpportuneScheduler

/// Random critical sections, one inside another, of tasks of two apps and of none, that are cancelled,
/// suspended and moved from band to band while they wait for the lock or have it.
struct LockProperty: ThreadsProperty {
  enum Forgotten { case exclusion, release, refusal }

  let name = "lock"
  let summary =
    "Each section of a lock alone, and none is lost; whoever asks for it gets it once, or was cancelled; all that is "
    + "resumed comes to its end."
  let head = 4
  let grain = 4
  /// What is broken, so that the judge must find fault.
  var forgets: Forgotten?
  /// Seconds that anything may take: on a loaded machine, and less than what ends an execution.
  var patience = 16.0

  typealias World = LockWorld

  static let stepsMax = 40
}

/// What a section does before it ends.
private enum Stay: UInt8, CaseIterable { case nothing, spin, yield, sleep, hold }

/// What the sections report, from many threads.
///
/// `@unchecked Sendable`: everything is guarded by `lock`.
private final class SectionModel: @unchecked Sendable {
  private struct Asked {
    let sections: Int
    var entered = 0
    var isCancelled = false
    var isOver = false
  }

  private let lock = Lock()
  private var tasks: [Asked] = []
  private var inside: [Int: Int] = [:]
  private var entered: [Int: Int] = [:]
  private var isOpen = false
  private var held: [CheckedContinuation<Void, Never>] = []
  private var found: [String] = []

  var problem: String? { lock.withLock { found.first } }
  var open: [Int] { lock.withLock { tasks.indices.filter { !tasks[$0].isOver } } }
  var count: Int { lock.withLock { tasks.count } }
  func sections(of number: Int) -> Int { lock.withLock { entered[number] ?? 0 } }

  func asks(for sections: Int) -> Int {
    lock.withLock { () -> Int in
      tasks.append(Asked(sections: sections))
      return tasks.count - 1
    }
  }

  func cancels(_ task: Int) { lock.withLock { tasks[task].isCancelled = true } }

  func enters(_ number: Int, _ task: Int) {
    lock.withLock { () -> Void in
      if let other = inside[number] {
        found.append("tasks \(other) and \(task) are inside of lock \(number)")
      }
      inside[number] = task
      entered[number, default: 0] += 1
      tasks[task].entered += 1
    }
  }

  func leaves(_ number: Int) { lock.withLock { inside[number] = nil } }

  func ends(_ task: Int, refused: Bool) {
    lock.withLock { () -> Void in
      if tasks[task].isOver { found.append("task \(task) ends twice") }
      tasks[task].isOver = true
      guard !tasks[task].isCancelled else { return }
      if refused { found.append("task \(task) is refused a lock, and was not cancelled") }
      if tasks[task].entered != tasks[task].sections {
        found.append("task \(task) was in \(tasks[task].entered) of \(tasks[task].sections) sections")
      }
    }
  }

  /// Waits until the sections that are held may go on.
  func hold() async {
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      let goesOn = lock.withLock { () -> Bool in
        if !isOpen { held.append(continuation) }
        return isOpen
      }
      if goesOn { continuation.resume() }
    }
  }

  /// Lets those go on that are held now, and with `all` those that come later too.
  func letGo(all: Bool) {
    let held = lock.withLock { () -> [CheckedContinuation<Void, Never>] in
      isOpen = isOpen || all
      defer { self.held = [] }
      return self.held
    }
    for continuation in held { continuation.resume() }
  }
}

/// A scheduler, two apps and three locks, which are taken in their order.
///
/// `@unchecked Sendable`: tasks use what is thread-safe, the rest is touched by the driver's thread alone.
final class LockWorld: ThreadsWorld, @unchecked Sendable {
  private let hand: Hand
  private let model = SectionModel()
  private let scheduler: Scheduler
  private let apps: [App]
  private let locks: [OpportuneLock<Int>]
  private let ceilings: [Bool]
  private let forgets: LockProperty.Forgotten?
  private var cancels: [@Sendable () -> Void] = []
  private var isClosed = false

  init(_ bytes: inout ByteSource, _ property: LockProperty, _ log: inout StepLog) throws(Violation) {
    forgets = property.forgets
    hand = Hand(patience: property.patience)
    var configuration = SchedulerConfiguration()
    let width = 1 + bytes.below(3)
    configuration.workers = .fixed(width)
    let kinds = bytes.below(8)
    ceilings = (0..<3).map { kinds >> $0 & 1 == 1 }
    do {
      scheduler = try Scheduler(configuration: configuration)
      apps = [try scheduler.makeApp(named: "app0"), try scheduler.makeApp(named: "app1", band: .background)]
      var locks: [OpportuneLock<Int>] = []
      for (number, hasCeiling) in ceilings.enumerated() {
        locks.append(
          try OpportuneLock(0, named: "lock\(number)", in: scheduler, ceiling: hasCeiling ? .foreground : nil)
        )
      }
      self.locks = locks
    } catch { throw Violation("there is no scheduler: \(error)") }
    log.note("a scheduler of \(width) workers; locks with a ceiling: \(ceilings)")
  }

  // MARK: Steps

  func step(_ bytes: inout ByteSource, _ log: inout StepLog) throws(Violation) {
    let (kind, owner, argument) = (bytes.below(16), bytes.below(3), Int(bytes.byte()))
    switch kind {
    case 0...7: start(owner, argument, bytes.choice(Stay.allCases), &log)
    case 8, 9:
      log.note("let go who is held")
      model.letGo(all: false)
    case 10, 11:
      guard !cancels.isEmpty else { break }
      log.note("cancel task \(argument % cancels.count)")
      model.cancels(argument % cancels.count)
      cancels[argument % cancels.count]()
    case 12:
      log.note("suspend app\(argument & 1)")
      apps[argument & 1].suspend()
    case 13:
      log.note("resume app\(argument & 1)")
      apps[argument & 1].resume()
    case 14: try move(argument & 1, to: argument & 2 == 0 ? .foreground : .background, &log)
    default: try drain(&log)
    }
    hand.run()
  }

  private func start(_ owner: Int, _ argument: Int, _ stay: Stay, _ log: inout StepLog) {
    // One lock, or two or three in their order.
    let wanted = (0..<3).filter { 1 + argument % 7 >> $0 & 1 == 1 }
    let path = wanted.isEmpty ? [argument % 3] : wanted
    let task = model.asks(for: path.count)
    log.note("task \(task) of \(owner < 2 ? "app\(owner)" : "no app") takes \(path): \(stay)")
    let body: @Sendable () async -> Void = { [self] in
      var isRefused = false
      do { try await take(path[...], task, stay) } catch { isRefused = true }
      model.ends(task, refused: isRefused)
    }
    if owner < 2 {
      let handle = apps[owner].task { await body() }
      cancels.append { handle.cancel() }
    } else {
      let handle = hand.start { await body() }
      cancels.append { handle.cancel() }
    }
    if forgets == .refusal, task % 4 == 3 { cancels[task]() }
  }

  private func take(_ path: ArraySlice<Int>, _ task: Int, _ stay: Stay) async throws {
    guard let number = path.first else { return await pass(stay, task) }
    let section: @Sendable (inout Int) async throws -> Void = { [self] value in
      model.enters(number, task)
      let before = value
      defer { model.leaves(number) }
      value = before + 1
      if forgets == .release, task % 8 == 7 {
        await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
      }
      try await take(path.dropFirst(), task, stay)
    }
    if forgets == .exclusion, task % 4 == 3 {
      var copy = 0
      try await section(&copy)
    } else {
      try await locks[number].withLock(section)
    }
  }

  private func pass(_ stay: Stay, _ task: Int) async {
    switch stay {
    case .nothing: break
    case .spin: Hand.spin(microseconds: 30)
    case .yield: for _ in 0..<3 { await Task.yield() }
    case .sleep: try? await apps[task & 1].clock.sleep(for: .microseconds(200))
    case .hold: await model.hold()
    }
  }

  private func move(_ app: Int, to band: Band, _ log: inout StepLog) throws(Violation) {
    log.note("app\(app) goes to band \(band)")
    do { try apps[app].setBand(band) } catch {
      throw Violation("app\(app) may not go to band \(band): \(error)")
    }
  }

  // MARK: The end

  func judge(_ log: inout StepLog) throws(Violation) {
    if let problem = model.problem { throw Violation(problem) }
  }

  /// All apps resumed, and nobody held any more, all comes to its end.
  private func drain(_ log: inout StepLog) throws(Violation) {
    log.note("resume both, let go who is held, and wait for all")
    for app in apps { app.resume() }
    guard hand.run(until: { model.open.isEmpty }, meanwhile: { model.letGo(all: false) }) else {
      try judge(&log)
      throw Violation("tasks \(model.open) do not end in time")
    }
    try judge(&log)
  }

  func end(_ log: inout StepLog) throws(Violation) {
    try drain(&log)
    for (number, lock) in locks.enumerated() {
      guard let value = hand.wait(for: { try? await lock.withLock { $0 } }) else {
        throw Violation("lock \(number) is not free in the end")
      }
      if value != model.sections(of: number) {
        throw Violation("lock \(number) guards \(value ?? -1) after \(model.sections(of: number)) sections")
      }
    }
    try shutDown()
  }

  private func shutDown() throws(Violation) {
    isClosed = true
    try hand.shutDown(scheduler)
  }

  /// Ends the scheduler in any case.
  func close() {
    model.letGo(all: true)
    if !isClosed { try? shutDown() }
  }
}
