import Glibc
import OpportuneBase
import OpportuneFuzz
import OpportuneIO
import OpportuneModels
import SystemPackage

/// Random calls of two apps on a real broker, with cancellations, suspensions and ends, against
/// ``RequestModel``.
struct RequestProperty: ThreadsProperty {
  enum Forgotten { case suspension, cancellation, answer }

  let name = "requests"
  let summary =
    "Each call of the I/O broker ends once, and as it may; none of a suspended app reaches the kernel, and what "
    + "completes meanwhile is held; what is cancelled or terminated ends; no byte is lost or read twice. Pipes, sockets, files."
  let head = 8
  let grain = 4
  /// What is broken, so that the judge must find fault.
  var forgets: Forgotten?
  /// Seconds that anything may take: on a loaded machine, and less than what ends an execution.
  var patience = 16.0

  typealias World = RequestWorld

  /// The places of a pipe's bytes are bytes: 4 a step at most.
  static let stepsMax = 60
}

/// A broker, two apps, two pipes and a socket that they read from, a pipe and a socket that they write to, a
/// file, a listener of the first app's, and the model.
///
/// `@unchecked Sendable`: only the thread that runs the hand touches it.
final class RequestWorld: ThreadsWorld, @unchecked Sendable {
  private static let read = [0, 1, 2]
  private static let written = [3, 4]
  private static let sockets = [2, 4]

  private let hand: Hand
  private let model = RequestModel(apps: 2, pipes: 5)
  private let broker: IOBroker
  private let apps: [AppIO]
  /// Connects at the end to whoever waits for that.
  private let caller: AppIO
  private let pipes: [RequestPipe]
  private let file: RequestFile
  private let listener: Listener
  private let address: SocketAddress
  private let forgets: RequestProperty.Forgotten?
  private let ending: Int
  private var calls: [Task<Void, Never>] = []
  private var drained = [Int](repeating: 0, count: 5)
  private var accepts = 0
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
    configuration.triesInline = bytes.flag()
    configuration.suspendedSockets = .none  // else a connection takes its time
    configuration.backgroundSockets = .none
    ending = bytes.below(3)
    do {
      broker = try IOBroker(configuration: configuration)
      let app = try broker.makeApp(named: "app0")
      apps = [app, try broker.makeApp(named: "app1", state: .background)]
      caller = try broker.makeApp(named: "caller")
      let made = hand.wait { try? await app.listen(on: .ipv4("127.0.0.1", port: 0)) }
      guard let listener = made ?? nil else { throw Violation("there is no listener") }
      self.listener = listener
      address = try listener.address()
    } catch { throw Violation("there is no broker: \(error)") }
    file = try RequestFile()
    pipes = try (0..<5).map { (number) throws(Violation) in
      try RequestPipe(
        isSocket: RequestWorld.sockets.contains(number), appsWrite: RequestWorld.written.contains(number))
    }
    let (storage, tries) = (configuration.storage, configuration.triesInline)
    log.note(
      "a broker: \(configuration.backend), depth \(storage.depth), cap \(storage.cap), \(storage.queuedRequests), "
        + "\(configuration.heldCompletions)\(tries ? ", tries at once" : "")")
  }

  // MARK: Steps

  func step(_ bytes: inout ByteSource, _ log: inout StepLog) throws(Violation) {
    let kind = bytes.below(22)
    let (app, pipe) = (bytes.below(2), bytes.below(3))
    let argument = Int(bytes.byte())
    switch kind {
    case 0...3:
      // None, at once, or soon.
      let limit: Duration? = [nil, nil, nil, .zero, .microseconds(30)][argument / 8 % 5]
      read(app, pipe, 1 + argument % 4, fills: argument & 4 != 0, within: limit, &log)
    case 4: write(app, Self.written[argument % 2], 1 + argument * 24, &log)
    case 5: nothing(app, &log)
    case 6...8: try feed(pipe, 1 + argument % 4, &log)
    case 9:
      log.note("bytes are taken out of pipes \(Self.written)")
      drain(4096)
    case 10: cancel(argument, &log)
    case 11...13:
      let states = IOState.allCases + [.suspended, .suspended]
      change(app, states[argument % states.count], &log)
    case 14: try synchronise(&log)
    case 16: readFile(app, argument, &log)
    case 17: writeFile(app, argument, &log)
    case 18: synchronize(app, &log)
    case 19: openFile(app, &log)
    case 20: connect(app, &log)
    case 21: accept(&log)
    default: if argument % 4 == 0 { terminate(app, &log) } else { try synchronise(&log) }
    }
    hand.run()
  }

  private func read(
    _ app: Int, _ pipe: Int, _ count: Int, fills: Bool, within limit: Duration?, _ log: inout StepLog
  ) {
    let call = RequestModel.Call(
      .read, app: app, pipe: pipe, count: count, fills: fills, hasDeadline: limit != nil)
    let (io, end, isSocket) = (apps[app], pipes[pipe].apps, pipes[pipe].isSocket)
    begin(
      call, "read \(count) from pipe\(pipe)\(fills ? ", all" : "")\(limit.map { ", within \($0)" } ?? "")",
      &log
    ) {
      let buffer = try IOBuffer(count: count, alignment: 16)
      let moved =
        try await isSocket
        ? io.receive(end, into: buffer, untilFull: fills, within: limit)
        : io.read(end, into: buffer, untilFull: fills, within: limit)
      return .read(try buffer.bytes(in: 0..<moved))
    }
  }

  private func write(_ app: Int, _ pipe: Int, _ count: Int, _ log: inout StepLog) {
    let call = RequestModel.Call(.write, app: app, pipe: pipe, count: count)
    let (io, end, isSocket) = (apps[app], pipes[pipe].apps, pipes[pipe].isSocket)
    begin(call, "write \(count) to pipe\(pipe)", &log) {
      let buffer = try IOBuffer(count: count, alignment: 16)
      if isSocket { try await io.send(end, from: buffer) } else { try await io.write(end, from: buffer) }
      return .wrote(count)
    }
  }

  /// Some pages, in pieces where it is background's.
  private func pages(_ argument: Int) -> Range<Int> {
    let first = argument % 13 * 4096
    return first..<first + (1 + argument % 3) * 4096
  }

  private func readFile(_ app: Int, _ argument: Int, _ log: inout StepLog) {
    let (io, file, range) = (apps[app], file.descriptor, pages(argument))
    begin(RequestModel.Call(.nothing, app: app, count: range.count), "read \(range) of the file", &log) {
      let buffer = try IOBuffer(count: range.count)
      let moved = try await io.read(file, into: buffer, at: Int64(range.lowerBound), untilFull: true)
      return .wrote(try buffer.bytes(in: 0..<moved) == RequestFile.bytes(range) ? moved : -1)
    }
  }

  private func writeFile(_ app: Int, _ argument: Int, _ log: inout StepLog) {
    let (io, file, range) = (apps[app], file.descriptor, pages(argument))
    begin(RequestModel.Call(.nothing, app: app, count: range.count), "write \(range) of the file", &log) {
      let buffer = try IOBuffer(copying: RequestFile.bytes(range))
      return .wrote(try await io.write(file, from: buffer, at: Int64(range.lowerBound)))
    }
  }

  private func synchronize(_ app: Int, _ log: inout StepLog) {
    let (io, file) = (apps[app], file.descriptor)
    begin(RequestModel.Call(.nothing, app: app), "synchronize the file", &log) {
      try await io.synchronize(file)
      return .wrote(0)
    }
  }

  private func openFile(_ app: Int, _ log: inout StepLog) {
    let (io, path) = (apps[app], file.path)
    begin(RequestModel.Call(.nothing, app: app), "open and close the file", &log) {
      try await io.close(try await io.open(path, .readOnly))
      return .wrote(0)
    }
  }

  private func connect(_ app: Int, _ log: inout StepLog) {
    let (io, address) = (apps[app], address)
    begin(RequestModel.Call(.connect, app: app, pipe: 0), "connect and close", &log) {
      try await io.close(try await io.connect(to: address))
      return .wrote(0)
    }
  }

  private func accept(_ log: inout StepLog) {
    let (io, listener) = (apps[0], listener)
    accepts += 1
    begin(RequestModel.Call(.nothing, app: 0), "accept and close", &log) {
      try await io.close(try await listener.accept())
      return .wrote(0)
    }
  }

  private func nothing(_ app: Int, _ log: inout StepLog) {
    let io = apps[app]
    begin(RequestModel.Call(.nothing, app: app), "do nothing", &log) {
      try await io.nop()
      return .wrote(0)
    }
  }

  private func begin(
    _ call: RequestModel.Call, _ what: String, _ log: inout StepLog,
    _ body: @escaping @Sendable () async throws -> RequestModel.Outcome
  ) {
    let number = model.submits(call)
    log.note("call \(number) of app\(call.app): \(what)")
    calls.append(
      hand.start { [self] in
        let outcome: RequestModel.Outcome
        do { outcome = try await body() } catch let error as IOError { outcome = .failed(error.code) } catch {
          preconditionFailure("a call threw \(error)")
        }
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

  private func drain(_ count: Int) {
    for pipe in Self.written { drained[pipe] += pipes[pipe].takeOut(count) }
  }

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

  /// Two rounds to the broker's thread and back for each request of a call, which are two at most: it tells
  /// of what it did in a turn after the answers of the turn before.
  private func synchronise(_ log: inout StepLog) throws(Violation) {
    log.note("wait for the broker's thread")
    let terminated = model.returned
    for _ in 0..<4 {
      let statistics = hand.wait { [broker] in try? await broker.statistics() }
      guard statistics != nil else { throw Violation("the broker does not answer in time") }
    }
    hand.run()
    model.synchronised(terminated: terminated)
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
      try synchronise(&log)
    default: break
    }
    log.note("shut down")
    guard shutDown() else { throw Violation("the shutdown does not return in time") }
    try wait("calls", &log) { self.model.open.isEmpty }
    for pipe in Self.read {
      model.finallySees(consumed: model.fedCount(pipe) - pipes[pipe].waiting, of: pipe)
    }
    drain(1 << 20)
    for pipe in Self.written { model.finallySees(written: drained[pipe], to: pipe) }
    let content = withUnsafeTemporaryAllocation(byteCount: RequestFile.size, alignment: 16) { memory in
      ((try? file.descriptor.read(fromAbsoluteOffset: 0, into: memory)) ?? 0, [UInt8](memory))
    }
    if content.0 != RequestFile.size || content.1 != RequestFile.bytes(0..<RequestFile.size) {
      throw Violation("the file is not what was written")
    }
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
    // A connection for each that waits for one; those of others may be gone to calls that were cancelled.
    for _ in 0..<(model.isTerminated(0) ? 0 : accepts) {
      let (io, address) = (caller, address)
      let isMade = hand.wait { try? await io.close(try await io.connect(to: address)) } != nil
      guard isMade else { throw Violation("a connection is not made in time") }
    }
    try wait("calls", &log) { self.model.open.isEmpty }
    // What ended at a deadline may be the kernel's for a moment longer.
    try wait("requests in the kernel", &log) {
      guard let known = self.hand.wait(for: { [broker = self.broker] in try? await broker.statistics() }),
        let statistics = known
      else { return false }
      return statistics.apps.allSatisfy { $0.inFlight == 0 && $0.held == 0 }
    }
    guard let known = hand.wait(for: { [broker] in try? await broker.statistics() }), let statistics = known
    else {
      throw Violation("the broker does not answer in time")
    }
    for (number, app) in statistics.apps.prefix(2).enumerated() where !model.isTerminated(number) {
      let classes = [app.foreground, app.background]
      let submitted = classes.reduce(0) { $0 + $1.submitted }
      let ended = classes.reduce(0) { $0 + $1.completed + $1.failed + $1.cancelled }
      if submitted != ended {
        throw Violation("\(submitted) calls of \(app.name) were counted, and \(ended) ends")
      }
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
    if shutDown() {
      for pipe in pipes { pipe.close() }
      file.close()
    }
  }
}
