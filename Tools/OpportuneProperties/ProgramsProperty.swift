import Foundation
import Glibc
import OpportuneApps
import OpportuneBase
import OpportuneFuzz
import OpportuneHost
import Synchronization

/// What several programs say to a host of processes, sense and nonsense, and what its user asks for, in
/// virtual time: see ``VirtualPrograms``.
struct ProgramsProperty: DrawnProperty {
  let name = "programs"
  let summary =
    "Whatever programs say to their host: what is suspended is stopped, what runs is not; each answer counts once, each "
    + "grace ends; limits hold, nothing is kept for who is gone; a refused request changes nothing."
  let grain = 6
  /// What the judge is shown of an app; for tests of the judge.
  var shows: @Sendable (VirtualPrograms.Seen) -> VirtualPrograms.Seen = { $0 }

  /// Those but the last have a manifest.
  static let names = ["mail", "call", "game", "tool"]

  /// Their manifests, in a folder for the process.
  private static let catalog: ManifestCatalog? = {
    guard let folder = OwnFolder.path.map({ $0 + "/programs" }) else { return nil }
    let lines = [
      "mail": "X-Opportune-TaskSeconds=7", "game": "X-Opportune-ExitsOnSuspend=true",
      "call": "X-Opportune-BackgroundModes=voip;\nX-Opportune-GraceSeconds=1",
    ]
    do {
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
      for (name, line) in lines {
        let text = "[Desktop Entry]\nType=Application\nName=\(name)\nExec=/bin/true\n\(line)\n"
        try text.write(toFile: "\(folder)/\(name).desktop", atomically: true, encoding: .utf8)
      }
    } catch { return nil }
    return ManifestCatalog(folders: [folder])
  }()

  private static let runs = Atomic<UInt64>(0)

  func draw(_ generator: inout SplitMix64) -> [UInt8] {
    generator.bytes(grain * Int.random(in: 1...100, using: &generator))
  }

  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
    guard let catalog = Self.catalog, let folder = OwnFolder.path else {
      throw Violation("no folder could be made for manifests and states")
    }
    let states = "\(folder)/states-\(Self.runs.add(1, ordering: .relaxed).newValue)"
    defer { try? FileManager.default.removeItem(atPath: states) }
    let host: VirtualPrograms
    do { host = try VirtualPrograms(catalog, states: states) } catch {
      throw Violation("there is no host: \(error)")
    }
    var world = World(host, states, shows)
    for var bytes in parts(of: input).steps {
      try world.step(&bytes, &log)
      try world.judge(&log)
    }
    log.note("an hour passes")
    try world.pass(.seconds(3600))
    try world.judge(&log)
    try world.comesToRest()
  }

  /// What a program knows of itself, as it has read it.
  private struct Program {
    var unread: [UInt8] = []
    /// The question that it has not answered.
    var question: (id: UInt64, event: String, task: Int64?, file: String?)?
    var lastID: UInt64 = 0
    var tasks: Set<Int64> = []
    var hasLeft = false
  }

  private struct World {
    let host: VirtualPrograms
    let states: String
    let shows: @Sendable (VirtualPrograms.Seen) -> VirtualPrograms.Seen
    /// Those that are connected.
    var programs: [String: Program] = [:]
    /// What was sent: its app, and what became of it where that is known.
    var messages: [UInt64: (app: String, outcome: String?)] = [:]
    /// Replies of answers to messages that were asked for, and not found in an outcome yet.
    var replies: Set<String> = []
    /// How many were given.
    var answers = 0
    /// Since when those that send heartbeats are seen to be stopped.
    var silentSince: [String: Moment] = [:]
    /// The app of the last step.
    var current = 0

    init(
      _ host: VirtualPrograms, _ states: String,
      _ shows: @escaping @Sendable (VirtualPrograms.Seen) -> VirtualPrograms.Seen
    ) {
      (self.host, self.states, self.shows) = (host, states, shows)
    }

    var apps: [String: VirtualPrograms.Seen] { host.apps.mapValues(shows) }

    // MARK: Steps

    mutating func step(_ bytes: inout ByteSource, _ log: inout StepLog) throws(Violation) {
      let kind = bytes.below(64)
      // Mostly the same as before: what is deep is reached by many steps of one.
      if bytes.below(6) == 0 { current = bytes.below(ProgramsProperty.names.count) }
      let name = ProgramsProperty.names[current]
      switch kind {
      case 0...2:
        try ask(
          name == "tool" ? .run(foreground: bytes.flag()) : .start(foreground: bytes.flag()), name, &log)
      case 3...8: try join(name, &bytes, &log)
      case 9...18 where programs[name] == nil && apps[name] != nil: try join(name, &bytes, &log)
      case 9...18:
        // All that it is asked, or one.
        let most = bytes.below(4) == 0 ? 1 : 8
        for _ in 0..<most where programs[name]?.question != nil { try answer(name, &bytes, &log) }
      case 19: try answerNonsense(name, &bytes, &log)
      case 20...25: try begin(name, &bytes, &log)
      case 26...28: try end(name, &bytes, &log)
      case 29...32: try say(Self.schedule(&bytes), name, &log)
      case 33:
        let line = bytes.choice([
          #"{"cancel":"n0"}"#, #"{"cancelAll":true}"#, #"{"pending":3}"#, #"{"cancelAll":false}"#,
        ])
        try say(line, name, &log)
      case 34:
        let line = bytes.choice([
          #"{"heartbeat":1,"after_ms":600000}"#, #"{"letGo":1}"#, #"{"keepAlive":1}"#, #"{"heartbeat":2}"#,
          #"{"heartbeat":3,"after_ms":5}"#, #"{"app":1,"name":"in","state":"foreground"}"#,
          #"{"app":1,"state":"suspended"}"#, #"{"app":1,"state":"terminated"}"#, #"{"app":2,"name":"in"}"#,
        ])
        try say(line, name, &log)
      case 35: try sayNonsense(name, &bytes, &log)
      case 36:
        log.note("\(name) disconnects")
        host.disconnect(name)
        programs[name] = nil
      case 37...38:
        log.note("\(name) ends")
        host.exit(name)
        programs[name] = nil
      case 39...41: try ask(.start(foreground: true), name, &log)
      case 42 where bytes.flag():
        try ask(
          bytes.choice([.start(foreground: true), .suspend(isAgain: false), .terminate]), name + "/in", &log)
      case 42...44: try ask(.suspend(isAgain: bytes.flag()), name, &log)
      case 45...46: try ask(.resume, name, &log)
      case 47...50 where host.saved.contains(name) && bytes.flag(): try ask(.resume, name, &log)
      case 47...50: try ask(.hibernate(isAgain: bytes.below(4) == 0), name, &log)
      case 51...52: try ask(.terminate, name, &log)
      case 53: try ask(bytes.flag() ? .keep(seconds: bytes.choice([nil, 3, -1])) : .endKeeping, name, &log)
      case 54:
        if bytes.flag() {
          try ask(.warn, name, &log)
        } else {
          log.note("memory is short")
          host.memoryIsShort()
        }
      case 55...57:
        var message = Message(bytes.choice(["letter", "", "call"]))
        message.payload["from"] = bytes.below(8) == 0 ? String(repeating: "x", count: 4000) : "ada"
        try ask(.notify(message), name, &log)
      case 58:
        let fails = bytes.below(4) == 0
        log.note("what is written to storage \(fails ? "is not" : "is there")")
        host.runAside(flushFails: fails)
      case 59: try startAnew(name, &bytes, &log)
      default:
        let span = Duration.milliseconds(
          bytes.choice([1, 200, 1000, 2500, 5000, 8000, 31_000, 70_000, 660_000]))
        log.note("\(span) pass")
        try pass(span)
      }
    }

    func pass(_ span: Duration) throws(Violation) {
      host.runAside(flushFails: false)
      guard host.pass(span) else { throw Violation("something stays due, for which a host would spin") }
    }

    private mutating func ask(
      _ request: VirtualPrograms.Request, _ name: String, _ log: inout StepLog
    ) throws(Violation) {
      log.note("\(request) of \(name)")
      let before = (apps, host.saved)
      do throws(ProcessHostError) {
        if let number = try host.ask(request, of: name) { messages[number] = (name, nil) }
      } catch {
        log.add(", refused: \(error.message)")
        // It has no place in background, and what was done instead is said.
        if name == "game", error.message.contains("terminated instead") { return }
        try unchanged(before, "\(request) of \(name)")
      }
    }

    private func unchanged(
      _ before: (apps: [String: VirtualPrograms.Seen], saved: Set<String>), _ what: String
    ) throws(Violation) {
      let after = (apps, host.saved)
      guard before.apps.keys == after.0.keys, before.saved == after.1 else {
        throw Violation("\(what) was refused, and other apps are there")
      }
      for (name, one) in before.apps {
        guard var other = after.0[name] else { continue }
        other.notes = one.notes
        guard one == other else {
          throw Violation("\(what) was refused, and changed \(name):\n  \(one)\n  \(other)")
        }
      }
    }

    private mutating func join(
      _ name: String, _ bytes: inout ByteSource, _ log: inout StepLog
    ) throws(Violation) {
      let (other, restarts) = (bytes.below(6), bytes.below(4) != 0)
      // Who says that it is another is known by its process.
      let app = other == 0 ? nil : other == 1 ? bytes.choice(ProgramsProperty.names) : name
      try join(name, asProcessOf: app, restarts: restarts, &log)
    }

    private mutating func join(
      _ name: String, asProcessOf app: String?, restarts: Bool, _ log: inout StepLog
    ) throws(Violation) {
      log.note("\(name) joins as a process of \(app ?? "none")\(restarts ? ", restarts" : "")")
      let before = (apps, host.saved)
      do throws(ProcessHostError) {
        try host.join(name, asProcessOf: app, restarts: restarts)
      } catch {
        log.add(", refused: \(error.message)")
        return try unchanged(before, "the join")
      }
      guard let app else { throw Violation("a process of no app has joined") }
      programs[app] = Program()
      _ = try read(app, &log)
      let isAsked = programs[app]?.question?.event == "restoreState"
      if programs[app] != nil, isAsked != (restarts && before.1.contains(app)) {
        throw Violation("\(app) is \(isAsked ? "" : "not ")to take a state")
      }
    }

    /// - Returns: what was read then.
    @discardableResult private mutating func say(
      _ line: String, _ name: String, _ log: inout StepLog
    ) throws(Violation) -> [[String: Any]] {
      guard programs[name] != nil else { return [] }
      log.note("\(name): \(line.count > 200 ? "a line of \(line.utf8.count) bytes" : line)")
      host.say(Array((line + "\n").utf8), as: name)
      return try read(name, &log)
    }

    private mutating func answer(
      _ name: String, _ bytes: inout ByteSource, _ log: inout StepLog
    ) throws(Violation) {
      guard let question = programs[name]?.question else { return }
      if question.event == "saveState", let file = question.file {
        let size = bytes.choice([
          100, 100, VirtualPrograms.limits.state, VirtualPrograms.limits.state + 1, -1,
        ])
        write(size, to: file, of: name, &log)
        // It may write and say nothing.
        if bytes.below(4) == 0 { return }
      }
      try answer(name, &log)
    }

    private func write(_ size: Int, to file: String, of name: String, _ log: inout StepLog) {
      log.note("\(name) writes a state of \(size) bytes")
      guard size >= 0 else { return }
      _ = FileManager.default.createFile(atPath: file, contents: nil)
      truncate(file, size)
    }

    /// It saves its state, ends, is started anew and takes it: by single steps that is rare.
    private mutating func startAnew(
      _ name: String, _ bytes: inout ByteSource, _ log: inout StepLog
    ) throws(Violation) {
      if apps[name] == nil, !host.saved.contains(name) { try ask(.start(foreground: false), name, &log) }
      if programs[name] == nil { try join(name, asProcessOf: name, restarts: true, &log) }
      try answerAll(name, &log)
      try ask(.hibernate(isAgain: false), name, &log)
      try answerAll(name, &log)
      host.runAside(flushFails: false)
      _ = try read(name, &log)
      try answerAll(name, &log)
      guard host.saved.contains(name) else { return }
      log.note("\(name) ends")
      host.exit(name)
      programs[name] = nil
      try ask(.start(foreground: bytes.flag()), name, &log)
      try join(name, asProcessOf: name, restarts: true, &log)
      try answerAll(name, &log)
    }

    private mutating func answerAll(_ name: String, _ log: inout StepLog) throws(Violation) {
      for _ in 0..<8 {
        guard let question = programs[name]?.question else { return }
        if question.event == "saveState", let file = question.file { write(100, to: file, of: name, &log) }
        try answer(name, &log)
      }
    }

    private mutating func answer(_ name: String, _ log: inout StepLog) throws(Violation) {
      guard let question = programs[name]?.question else { return }
      programs[name]?.question = nil
      if question.event == "taskExpires", let task = question.task { programs[name]?.tasks.remove(task) }
      answers += 1
      let reply = "r\(answers)"
      if question.event == "didReceiveMessage" { replies.insert(reply) }
      try say(#"{"answer":\#(question.id),"reply":"\#(reply)"}"#, name, &log)
      if apps[name]?.questions.contains(question.id) == true {
        throw Violation("the answer of \(name) to \(question.event) was not counted")
      }
      if question.event == "restoreState", host.saved.contains(name) {
        throw Violation("\(name) has taken its state, which is kept")
      }
    }

    private mutating func answerNonsense(
      _ name: String, _ bytes: inout ByteSource, _ log: inout StepLog
    ) throws(Violation) {
      guard let program = programs[name] else { return }
      let wrong = bytes.choice([0, program.lastID + 1, program.question == nil ? program.lastID : 0, .max])
      try say(#"{"answer":\#(wrong)}"#, name, &log)
      guard apps[name]?.hasJoined != true else {
        throw Violation("\(name) has answered what it was not asked, and is not left")
      }
    }

    private mutating func begin(
      _ name: String, _ bytes: inout ByteSource, _ log: inout StepLog
    ) throws(Violation) {
      let count = bytes.below(6) == 0 ? 20 : 1
      for _ in 0..<count {
        guard let program = programs[name] else { return }
        let task = Int64(bytes.below(5)) + (count > 1 ? Int64(program.tasks.count) : 0)
        let length = bytes.below(8) == 0 ? 101 : 3
        let read = try say(
          #"{"begin":\#(task),"name":"\#(String(repeating: "t", count: length))"}"#, name, &log)
        let answers = read.filter {
          $0["event"] as? String == "taskBegan" || $0["event"] as? String == "taskRefused"
        }
        guard apps[name]?.hasJoined == true else { return }
        guard answers.count == 1 else { throw Violation("a task is answered \(answers.count) times") }
        guard answers[0]["event"] as? String == "taskBegan" else { continue }
        guard !program.tasks.contains(task), length <= 100, program.tasks.count < VirtualPrograms.limits.tasks
        else { throw Violation("a task of \(name) was to be refused") }
        programs[name]?.tasks.insert(task)
      }
    }

    private mutating func end(
      _ name: String, _ bytes: inout ByteSource, _ log: inout StepLog
    ) throws(Violation) {
      let task = Int64(bytes.below(5))
      programs[name]?.tasks.remove(task)
      for _ in 0...bytes.below(2) { try say(#"{"end":\#(task)}"#, name, &log) }
    }

    private static func schedule(_ bytes: inout ByteSource) -> String {
      let time = bytes.choice([
        #""after_ms":0"#, #""after_ms":3000"#, #""at_ms":1"#, #""at_ms":1000000005000"#, #""after_ms":-1"#,
        #""at_ms":9223372036854775807"#, #""after_ms":1,"at_ms":1"#, #""after_ms":60000"#,
      ])
      let repeats = bytes.choice(["never", "never", "daily", "weekly", "hourly"])
      let name = bytes.choice(["n0", "n1", "n2", "", String(repeating: "n", count: 65)])
      let body = String(repeating: "b", count: bytes.below(16) == 0 ? 3500 : 3)
      return
        #"{"schedule":\#(bytes.byte()),"name":"\#(name)",\#(time),"repeats":"\#(repeats)","body":"\#(body)"}"#
    }

    private mutating func sayNonsense(
      _ name: String, _ bytes: inout ByteSource, _ log: inout StepLog
    ) throws(Violation) {
      let lines = bytes.choice([
        "", "{}", "null", #"{"begin":1,"end":1}"#, #"{"answer":-1}"#, "\u{0}", #"{"begin":"x"}"#,
        String(repeating: " ", count: VirtualPrograms.limits.line + 1),
        (0...VirtualPrograms.limits.lines).map { #"{"end":\#($0 + 100)}"# }.joined(separator: "\n"),
      ])
      guard programs[name] != nil else { return }
      try say(lines, name, &log)
      guard apps[name]?.hasJoined != true else {
        throw Violation("\(name) has said nonsense, and is not left")
      }
    }

    // MARK: What programs read

    private mutating func read(_ name: String, _ log: inout StepLog) throws(Violation) -> [[String: Any]] {
      guard var program = programs[name] else { return [] }
      let (bytes, hasEnded) = host.read(name)
      program.unread += bytes
      var result: [[String: Any]] = []
      while let end = program.unread.firstIndex(of: 10) {
        let line = Data(program.unread[..<end])
        program.unread.removeFirst(end + 1)
        guard let object = try? JSONSerialization.jsonObject(with: line) as? [String: Any] else {
          throw Violation("\(name) is told what is no line: \(String(decoding: line, as: UTF8.self))")
        }
        log.add("\n         \(name) reads \(String(decoding: line, as: UTF8.self).prefix(200))")
        result.append(object)
        if program.hasLeft { throw Violation("\(name) hears something after it was left") }
        guard let event = object["event"] as? String else { continue }
        if event == "left" { program.hasLeft = true }
        guard let id = (object["id"] as? NSNumber)?.uint64Value else { continue }
        guard program.question == nil else {
          throw Violation("\(name) is asked \(event) before it has answered \(program.question?.event ?? "")")
        }
        guard id > program.lastID else { throw Violation("the question \(id) comes after \(program.lastID)") }
        program.lastID = id
        program.question = (
          id, event, (object["task"] as? NSNumber)?.int64Value, object["file"] as? String
        )
      }
      if hasEnded {
        if apps[name]?.hasJoined == true {
          throw Violation("the connection of \(name) has ended, and counts")
        }
        host.disconnect(name)
        programs[name] = nil
      } else {
        if program.hasLeft { throw Violation("\(name) was left, and its connection is open") }
        programs[name] = program
      }
      return result
    }

    // MARK: The judge

    mutating func judge(_ log: inout StepLog) throws(Violation) {
      for name in ProgramsProperty.names { _ = try read(name, &log) }
      let (apps, now, limits) = (self.apps, host.now, VirtualPrograms.limits)
      try judgeHeartbeats(apps, now)
      for (name, app) in apps.sorted(by: { $0.key < $1.key }) {
        let stands = ["suspended", "hibernated"].contains(app.state)
        // R-LIFE-01, R-LIFE-06
        if stands != app.isFrozen, app.state != "terminated" {
          throw Violation("\(name) is \(app.state), and is \(app.isFrozen ? "" : "not ")stopped")
        }
        if app.isStopping { throw Violation("\(name) is stopping for ever") }
        if !app.hasProcess { throw Violation("\(name) has ended, and is still there") }
        if app.state == "terminated", !app.isAskedToEnd, app.questions.isEmpty {
          throw Violation("\(name) is being ended, and was never asked to")
        }
        for (what, moment, longest) in [
          ("answer", app.answersUntil, 5), ("suspension", app.suspensionWaitsUntil, 60),
          ("end", app.killAt, 5),
        ] {
          guard let moment else { continue }
          if moment <= now || moment - now > .seconds(longest) {
            throw Violation("the grace for the \(what) of \(name) ends in \(moment - now)")
          }
        }
        if (app.answersUntil != nil) != !app.questions.isEmpty {
          throw Violation("\(name) has no time for its answer, or no question")
        }
        if app.questions.count > limits.questions || app.tasks.count > limits.tasks
          || app.messages > limits.messages || app.scheduled > limits.notifications
          || app.due > limits.notifications || app.notes.count > 32
        {
          throw Violation("more is kept of \(name) than there may be: \(app)")
        }
        if app.hasJoined != (programs[name] != nil) {
          throw Violation(
            "\(name) \(app.hasJoined ? "counts as joined" : "is connected, and does not count")")
        }
        guard let program = programs[name] else {
          if !app.tasks.isEmpty || !app.questions.isEmpty || app.sockets > 0 || app.hasHeartbeat {
            throw Violation("\(name) has left, and is waited for")
          }
          continue
        }
        guard app.tasks == program.tasks else {
          throw Violation("\(name) has the tasks \(program.tasks.sorted()), and \(app.tasks.sorted()) count")
        }
        guard app.questions.first == program.question?.id else {
          throw Violation("\(name) is not told what it is asked")
        }
      }
      // R-LIFE-04
      let inFront = apps.values.count { $0.state == "foreground" }
      if inFront > 1 { throw Violation("\(inFront) apps are in front") }
      try judgeGone(apps)
      try judgeMessages()
      try judgeFiles()
    }

    // R-VOIP-02, R-VOIP-05
    private mutating func judgeHeartbeats(
      _ apps: [String: VirtualPrograms.Seen], _ now: Moment
    ) throws(Violation) {
      silentSince = silentSince.filter {
        apps[$0.key]?.isFrozen == true && apps[$0.key]?.hasHeartbeat == true
      }
      for (name, app) in apps where app.isFrozen && app.hasHeartbeat {
        let since = silentSince[name, default: now]
        silentSince[name] = since
        if now - since > .seconds(600) { throw Violation("\(name) was not asked for its heartbeat") }
      }
    }

    private func judgeGone(_ apps: [String: VirtualPrograms.Seen]) throws(Violation) {
      for name in ProgramsProperty.names where apps[name] == nil {
        // What has a manifest can be started for its notifications.
        let kept = host.kept(for: name).filter { name == "tool" || !$0.contains("notifications") }
        if let first = kept.first { throw Violation("\(name) is gone, and \(first) are kept") }
        if programs[name] != nil { throw Violation("\(name) is gone, and its connection is open") }
      }
    }

    /// The first outcome counts, and a reply once.
    private mutating func judgeMessages() throws(Violation) {
      for (number, message) in messages.sorted(by: { $0.key < $1.key }) {
        let (isKnown, isOver, text) = host.outcome(of: number, to: message.app)
        guard isKnown else {
          messages[number] = nil
          continue
        }
        if let before = message.outcome {
          guard isOver, text == before else {
            throw Violation("message \(number) to \(message.app) was \(before), and is \(text) now")
          }
        } else if isOver {
          if text.hasPrefix("answered: "), replies.remove(String(text.dropFirst(10))) == nil {
            throw Violation("message \(number) to \(message.app) is \(text), which it did not say")
          }
          messages[number] = (message.app, text)
        }
      }
    }

    private func judgeFiles() throws(Violation) {
      let files = (try? FileManager.default.contentsOfDirectory(atPath: states)) ?? []
      let saved = host.saved
      for file in files {
        let name = String(file.prefix { $0 != "." })
        if file.hasSuffix(".new") {
          // It may have answered, and be asked something else before it is ended.
          let isToBeEnded = apps[name]?.isSuspendedLater == true
          guard isToBeEnded || programs[name]?.question?.event == "saveState" else {
            throw Violation("'\(file)' is kept, and \(name) was not asked for its state")
          }
        } else if !saved.contains(name) {
          throw Violation("'\(file)' is kept, and no state of \(name)")
        }
        let size = (try? FileManager.default.attributesOfItem(atPath: "\(states)/\(file)"))?[.size] as? Int
        if file.hasSuffix(".state"), size ?? 0 > VirtualPrograms.limits.state {
          throw Violation("the state of \(name) has \(size ?? 0) bytes")
        }
      }
      for name in saved where !files.contains("\(name).state") && !files.contains("\(name).due") {
        throw Violation("the state of \(name) counts as saved, and has no file")
      }
    }

    /// Nobody says anything any more, and time has passed.
    func comesToRest() throws(Violation) {
      for (name, app) in apps
      where app.messages == 0 && app.scheduled == 0 && app.due == 0 && !app.hasHeartbeat {
        if app.isSuspendedLater || app.killAt != nil || !app.questions.isEmpty || app.state == "terminated" {
          throw Violation("\(name) does not come to rest: \(app)")
        }
      }
    }
  }
}
