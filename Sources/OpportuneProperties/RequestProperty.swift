import Glibc
import OpportuneFuzz
import OpportuneIO
import OpportuneModels
import SystemPackage

/// Random calls of two apps on a real broker, with cancellations, suspensions and ends, against ``RequestModel``.
///
/// The bytes choose what is done; when the broker's thread and the kernel come to it is left to them.
struct RequestProperty: Property {
  enum Forgotten { case suspension, cancellation, answer }

  let name = "requests"
  let summary =
    "Each call of the I/O broker ends once, and as it may; none of a suspended app reaches the kernel, and what "
    + "completes meanwhile is held; what is cancelled or terminated ends; no byte is lost or read twice."
  let head = 8
  let grain = 4
  let tries = 20
  /// What is broken, so that the judge must find fault.
  var forgets: Forgotten?
  /// Seconds that anything may take: on a loaded machine, and less than what ends an execution.
  var patience = 16.0

  /// The places of a pipe's bytes are bytes: 4 a step at most.
  private static let stepsMax = 60

  func draw(_ generator: inout SplitMix64) -> [UInt8] {
    generator.bytes(head + grain * Int.random(in: 1...Self.stepsMax, using: &generator))
  }

  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
    var (head, steps) = parts(of: input)
    let world = try RequestWorld(&head, self, &log)
    defer { world.close() }
    for var bytes in steps.prefix(Self.stepsMax) {
      try world.step(&bytes, &log)
      try world.judge(&log)
    }
    try world.end(&log)
  }
}

/// A broker, two apps, two pipes that they read from, one that they write to, and the model.
///
/// `@unchecked Sendable`: only the thread that runs the hand touches it.
private final class RequestWorld: @unchecked Sendable {
  private static let read = 0..<2
  private static let written = 2

  private let hand: Hand
  private let model = RequestModel(apps: 2, pipes: 3)
  private let broker: IOBroker
  private let apps: [AppIO]
  private let pipes: [Pipe]
  private let forgets: RequestProperty.Forgotten?
  private let ending: Int
  private var calls: [Task<Void, Never>] = []
  private var drained = 0
  private var seen: [String] = []
  private var isClosed = false

  init(_ bytes: inout ByteSource, _ property: RequestProperty, _ log: inout StepLog) throws(Violation) {
    forgets = property.forgets
    hand = Hand(patience: property.patience)
    var configuration = IOConfiguration()
    configuration.backend = bytes.choice([.automatic, .threads])
    configuration.entries = 8
    configuration.completions = 8
    configuration.threads = 2
    configuration.storage.depth = bytes.choice([1, 2, 64])
    configuration.storage.cap = bytes.choice([.fixed(1), .none])
    configuration.storage.chunk = 4096
    configuration.storage.queuedRequests = bytes.choice([.follow, .stay])
    configuration.heldCompletions = bytes.choice([.wait, .report])
    configuration.triesAtOnce = bytes.flag()
    ending = bytes.below(3)
    do {
      broker = try IOBroker(configuration: configuration)
      apps = [try broker.makeApp(named: "app0"), try broker.makeApp(named: "app1", state: .background)]
    } catch { throw Violation("there is no broker: \(error)") }
    pipes = try (0..<3).map { (number) throws(Violation) in try Pipe(appsWrite: number == RequestWorld.written) }
    let (storage, tries) = (configuration.storage, configuration.triesAtOnce)
    log.note(
      "a broker: \(configuration.backend), depth \(storage.depth), cap \(storage.cap), \(storage.queuedRequests), "
        + "\(configuration.heldCompletions)\(tries ? ", tries at once" : "")")
  }

  // MARK: Steps

  func step(_ bytes: inout ByteSource, _ log: inout StepLog) throws(Violation) {
    let kind = bytes.below(16)
    let (app, pipe) = (bytes.below(2), bytes.below(2))
    let argument = Int(bytes.byte())
    switch kind {
    case 0...3:
      // None, at once, or soon.
      let limit: Duration? = [nil, nil, nil, .zero, .microseconds(30)][argument / 8 % 5]
      read(app, pipe, 1 + argument % 4, fills: argument & 4 != 0, within: limit, &log)
    case 4: write(app, 1 + argument * 24, &log)
    case 5: nothing(app, &log)
    case 6...8: try feed(pipe, 1 + argument % 4, &log)
    case 9:
      log.note("bytes are taken out of pipe\(Self.written)")
      drain(4096)
    case 10: cancel(argument, &log)
    case 11...13:
      let states = IOState.allCases + [.suspended, .suspended]
      change(app, states[argument % states.count], &log)
    case 14: try settle(&log)
    default: if argument % 4 == 0 { terminate(app, &log) } else { try settle(&log) }
    }
    hand.run()
  }

  private func read(_ app: Int, _ pipe: Int, _ count: Int, fills: Bool, within limit: Duration?, _ log: inout StepLog) {
    let call = RequestModel.Call(
      .read, app: app, pipe: pipe, count: count, fills: fills, hasDeadline: limit != nil)
    let (io, end) = (apps[app], pipes[pipe].apps)
    begin(call, "read \(count) from pipe\(pipe)\(fills ? ", all" : "")\(limit.map { ", within \($0)" } ?? "")", &log) {
      do throws(IOError) {
        let buffer = try IOBuffer(count: count, alignment: 16)
        let moved = try await io.read(end, into: buffer, untilFull: fills, within: limit)
        return .read(try buffer.bytes(in: 0..<moved))
      } catch { return .failed(error.code) }
    }
  }

  private func write(_ app: Int, _ count: Int, _ log: inout StepLog) {
    let call = RequestModel.Call(.write, app: app, pipe: Self.written, count: count)
    let (io, end) = (apps[app], pipes[Self.written].apps)
    begin(call, "write \(count) to pipe\(Self.written)", &log) {
      do throws(IOError) {
        return .wrote(try await io.write(end, from: try IOBuffer(count: count, alignment: 16)))
      } catch { return .failed(error.code) }
    }
  }

  private func nothing(_ app: Int, _ log: inout StepLog) {
    let io = apps[app]
    begin(RequestModel.Call(.nothing, app: app), "do nothing", &log) {
      do throws(IOError) {
        try await io.nop()
        return .wrote(0)
      } catch { return .failed(error.code) }
    }
  }

  private func begin(
    _ call: RequestModel.Call, _ what: String, _ log: inout StepLog,
    _ body: @escaping @Sendable () async -> RequestModel.Outcome
  ) {
    let number = model.submits(call)
    log.note("call \(number) of app\(call.app): \(what)")
    calls.append(
      hand.start { [self] in
        let outcome = await body()
        if forgets == .answer, number % 8 == 7 { return }
        model.ended(number, outcome)
        seen.append("call \(number) ends: \(outcome)")
      })
  }

  private func feed(_ pipe: Int, _ count: Int, _ log: inout StepLog) throws(Violation) {
    log.note("\(count) bytes into pipe\(pipe)")
    let first = model.fedCount(pipe)
    model.fed(pipe, count)
    try pipes[pipe].put((first..<first + count).map { UInt8(truncatingIfNeeded: $0) })
  }

  private func drain(_ count: Int) { drained += pipes[Self.written].takeOut(count) }

  private func cancel(_ pick: Int, _ log: inout StepLog) {
    let open = model.open
    guard !open.isEmpty else { return }
    let number = open[pick % open.count]
    log.note("cancel call \(number)")
    model.cancels(number)
    if forgets != .cancellation { calls[number].cancel() }
  }

  private func change(_ app: Int, _ state: IOState, _ log: inout StepLog) {
    log.note("app\(app) becomes \(state)")
    if state != .suspended { model.changes(app, isSuspended: false) }
    if !(forgets == .suspension && state == .suspended) { apps[app].setState(state) }
    if state == .suspended { model.changes(app, isSuspended: true) }
  }

  private func terminate(_ app: Int, _ log: inout StepLog) {
    log.note("terminate app\(app)")
    model.terminates(app)
    let io = apps[app]
    hand.start { [self] in
      await io.terminate()
      model.terminated(app)
      seen.append("app\(app) is terminated")
    }
  }

  /// Two rounds to the broker's thread and back: it tells of what it did in a turn after the answers of the turn before.
  private func settle(_ log: inout StepLog) throws(Violation) {
    log.note("wait for the broker's thread")
    let terminated = model.returned
    for _ in 0..<2 {
      let statistics = hand.wait { [broker] in try? await broker.statistics() }
      guard statistics != nil else { throw Violation("the broker does not answer in time") }
    }
    hand.run()
    model.settled(terminated: terminated)
  }

  func judge(_ log: inout StepLog) throws(Violation) {
    for pipe in Self.read { model.sees(consumed: model.fedCount(pipe) - pipes[pipe].waiting, of: pipe) }
    for line in seen { log.add("\n         \(line)") }
    seen = []
    if let problem = model.problems.first { throw Violation(problem) }
  }

  // MARK: The end

  func end(_ log: inout StepLog) throws(Violation) {
    switch ending {
    case 0: try letAllRun(&log)
    case 1:
      for app in apps.indices where !model.isTerminated(app) { terminate(app, &log) }
      try wait("the terminations", &log) { self.model.returned.count == self.apps.count }
      try settle(&log)
    default: break
    }
    log.note("shut down")
    guard shutDown() else { throw Violation("the shutdown does not return in time") }
    try wait("calls", &log) { self.model.open.isEmpty }
    for pipe in Self.read { model.finallySees(consumed: model.fedCount(pipe) - pipes[pipe].waiting, of: pipe) }
    drain(1 << 20)
    model.finallySees(written: drained, to: Self.written)
    try judge(&log)
  }

  private func letAllRun(_ log: inout StepLog) throws(Violation) {
    for app in apps.indices { change(app, .active, &log) }
    try wait("cancelled calls", &log) { self.model.open.allSatisfy { !self.model[$0].isCancelled } }
    for pipe in Self.read {
      let wanted = model.open.map { model[$0] }.filter { $0.kind == .read && $0.pipe == pipe }.reduce(0) {
        $0 + $1.count
      }
      let missing = wanted - pipes[pipe].waiting
      if missing > 0 { try feed(pipe, missing, &log) }
    }
    try wait("calls", &log) { self.model.open.isEmpty }
    // What ended at a deadline may be the kernel's for a moment longer.
    try wait("requests in the kernel", &log) {
      guard let known = self.hand.wait(for: { [broker = self.broker] in try? await broker.statistics() }),
        let statistics = known
      else { return false }
      return statistics.apps.allSatisfy { $0.inFlight == 0 && $0.held == 0 }
    }
    guard let known = hand.wait(for: { [broker] in try? await broker.statistics() }), let statistics = known else {
      throw Violation("the broker does not answer in time")
    }
    for (number, app) in statistics.apps.enumerated() where !model.isTerminated(number) {
      let classes = [app.foreground, app.background]
      let submitted = classes.reduce(0) { $0 + $1.submitted }
      let ended = classes.reduce(0) { $0 + $1.completed + $1.failed + $1.cancelled }
      if submitted != ended { throw Violation("\(submitted) calls of \(app.name) were counted, and \(ended) ends") }
    }
  }

  private func wait(_ what: String, _ log: inout StepLog, _ isThere: () -> Bool) throws(Violation) {
    log.note("wait for \(what)")
    let came = hand.run(until: isThere, meanwhile: { drain(4096) })
    try judge(&log)
    if !came { throw Violation("\(what) do not end in time: calls \(model.open) are open") }
  }

  private func shutDown() -> Bool {
    model.shutsDown()
    return hand.wait(meanwhile: { drain(4096) }, for: { [broker] in await broker.shutdown() }) != nil
  }

  /// Ends the broker in any case.
  func close() {
    guard !isClosed else { return }
    isClosed = true
    // A broker that does not end may still use them.
    if shutDown() { for pipe in pipes { pipe.close() } }
  }
}

/// A pipe of 4096 bytes with one end for apps, which waits, and one for the driver, which does not.
private struct Pipe {
  let apps: FileDescriptor
  private let own: FileDescriptor
  private static let setSize: Int32 = 1031

  init(appsWrite: Bool) throws(Violation) {
    do {
      let (readEnd, writeEnd) = try FileDescriptor.pipe()
      (apps, own) = appsWrite ? (writeEnd, readEnd) : (readEnd, writeEnd)
    } catch { throw Violation("there is no pipe: \(error)") }
    _ = fcntl(own.rawValue, F_SETFL, O_NONBLOCK)
    _ = fcntl(own.rawValue, Self.setSize, 4096)
  }

  /// Bytes that nobody has read.
  var waiting: Int {
    var count: Int32 = 0
    return ioctl(apps.rawValue, UInt(FIONREAD), &count) == 0 ? Int(count) : 0
  }

  func put(_ bytes: [UInt8]) throws(Violation) {
    do { _ = try own.writeAll(bytes) } catch { throw Violation("the pipe takes no bytes: \(error)") }
  }

  func takeOut(_ count: Int) -> Int {
    withUnsafeTemporaryAllocation(byteCount: count, alignment: 16) { (try? own.read(into: $0)) ?? 0 }
  }

  func close() {
    for end in [apps, own] { try? end.close() }
  }
}
