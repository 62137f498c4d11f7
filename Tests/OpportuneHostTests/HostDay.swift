import Foundation
import OpportuneApps
import OpportuneBase
import TestSupport
import Testing

@testable import OpportuneHost

/// A day of use of `opportune host`: a user that is drawn by a seed launches programs that fork, exec, leave
/// orphans, change session, ignore signals and eat memory, switches between them, and has them suspended,
/// hibernated, kept and ended, while others kill and stop their processes behind the host's back.
///
/// What there is, is told by the programs' environments, by what they count and by /proc, and compared after
/// each step with what ``DayModel`` says and with what the host tells.
final class HostDay {
  /// What is wrong, with how to see it again.
  struct Wrong: Error, CustomStringConvertible { let description: String }

  /// What is wrong now.
  private struct Difference {
    let what: String
    /// Whether it is to be waited for: it may be that something has ended, and not all have seen it yet.
    var mayPass = false
  }

  private enum Way { case run, adopt, start }

  private enum Act {
    case launch(Way, foreground: Bool)
    case ask(DayModel.Request)
    case adoptMember
    case killOne, killAll, stopOne, continueOne, look
  }

  /// A program under one of the names.
  private struct Program {
    let traits: String
    /// In milliseconds; 0: it stays.
    let life: Int
    let seed: UInt64
    /// Who stays as long as the app does.
    var main: Int32?
    /// It waits for the others, and counts nothing.
    var waiter: Int32?
    /// What all of it had counted when it was stopped, and how long its processes had run.
    var stoppedAt: (count: UInt64, times: [ProcessID: UInt64])?
    /// Whether others may have stopped processes of it.
    var mayBeStopped = false
    /// Whether it was so when it was asked to end: nothing of it runs any more.
    var isEndedStopped = false
    var launched: Process?
  }

  private static let grace = 0.3
  private let backend: Backend
  private let seed: UInt64
  /// How long what others bring about may take.
  private let patience: Duration
  private let tag = Data("OPPORTUNE_DAY=\(Hosted.newKey()):".utf8)
  private let place: Place
  private let host: HostProgram
  private let errors: Output
  private let names = ["mail", "web", "music", "notes", "make", "game", "tool", "tree", "sh", "film"]
  private var model: DayModel
  private var programs: [String: Program] = [:]
  private var step = 0
  private var history: [String] = []
  private var said = ""
  /// What is known of processes; who was there before is none of ours.
  private var owners: [ProcessID: String] = [:]
  private var strangers: Set<ProcessID> = []
  private var usedBefore: (descriptors: Int, memory: Int) = (0, 0)

  private(set) var launches = 0
  private(set) var switches = 0
  private(set) var stops = 0
  private(set) var kills = 0
  private(set) var refusals = 0
  private(set) var growth = 0

  init(_ backend: Backend, seed: UInt64, patience: Duration) async throws {
    (self.backend, self.seed, self.patience) = (backend, seed, patience)
    place = try Place()
    errors = try Output()
    strangers = Set(ProcessTable.all().map(\.id))
    model = DayModel(
      manifests: Set(names.prefix(4)), grace: .seconds(Self.grace), patience: patience)
    host = try await HostProgram(
      place, backend, grace: Self.grace,
      options: ["--front", "none", "--manifests", place.folder.path, "--memory-short", "warn"],
      errors: errors)
    for name in model.manifests.sorted() {
      try makeProgram(name, SplitMix64(seed: seed, number: UInt64(name.utf8.reduce(0) { $0 * 31 + Int($1) })))
      try writeManifest(command(name), name: name, in: place.folder.path)
    }
    // What a host has of its own after its first app.
    _ = try await perform(.launch(.start, foreground: false), "mail", 0)
    _ = try await perform(.ask(.terminate), "mail", 0)
    try await eventually("the end of the first") { try difference() == nil && model.apps.isEmpty }
    usedBefore = try used()
  }

  // MARK: The programs

  /// - Parameter isAdopted: whether the host is to take it in with what it has started.
  private func makeProgram(_ name: String, _ random: SplitMix64, isAdopted: Bool = false) throws {
    var random = random
    func below(_ limit: Int) -> Int { Int(random.next() % UInt64(limit)) }
    var traits = "fdmxgsthil".filter { _ in below(3) > 0 }
    // The host says itself that it does not find orphans from before an adoption, nor without control groups
    // those of later, unless a member leads their session.
    if isAdopted { traits = traits.filter { $0 != "s" } }
    // It is to be there still when it is adopted.
    let life = below(3) == 0 ? 300 + below(3000) + (isAdopted ? 5000 : 0) : 0
    programs[name] = Program(traits: traits, life: life, seed: random.next())
    let file = counterFile(name)
    if !SystemFile.exists(file) { try Data(count: 8).write(to: URL(filePath: file)) }
    if life > 0 { model.shortLived.insert(name) } else { model.shortLived.remove(name) }
  }

  private func counterFile(_ name: String) -> String { place.folder.appending(path: name + ".count").path }

  private func counted(_ name: String) -> UInt64 {
    let bytes = SystemFile.bytes(counterFile(name)) ?? []
    return bytes.prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  /// - Parameter leads: whether it is to be a tree whose leader has a session of its own.
  private func command(_ name: String, leads: Bool = false) throws -> [String] {
    let program = programs[name]
    var words = ["/usr/bin/env", String(decoding: tag, as: UTF8.self) + name]
    // Its life begins when it does.
    words += ["/bin/sh", "-c"]
    let uptime = #"read -r up rest </proc/uptime; up=${up%.*}${up#*.}0"#
    let end = (program?.life ?? 0) > 0 ? "$((up + \(program?.life ?? 0)))" : "0"
    words.append(#"\#(uptime); exec "$0" "$1" "$2" "\#(end)" "$3""#)
    words += [
      try builtProgram("DayProgram"), counterFile(name), (program?.traits ?? "") + (leads ? "S" : "-"),
    ]
    return words + ["\(program?.seed ?? 0)"]
  }

  // MARK: What there is

  /// One of the programs' processes, as /proc has it.
  private struct Living {
    let id: ProcessID
    let isStopped: Bool
    var pid: Int32 { id.pid }
  }

  /// By the programs' names. Who is about to end is none any more.
  private func living() -> [String: [Living]] {
    var result: [String: [Living]] = [:]
    for pid in ProcessTable.pids() {
      guard let bytes = SystemFile.bytes("/proc/\(pid)/stat"), let stat = ProcessStat(pid, bytes),
        !stat.hasEnded, !strangers.contains(stat.id), !Self.isExiting(bytes), let name = owner(of: stat.id)
      else { continue }
      result[name, default: []].append(Living(id: stat.id, isStopped: stat.isStopped))
    }
    return result
  }

  /// PF_EXITING: it runs nothing of its program any more, and a group has it no more.
  private static func isExiting(_ stat: [UInt8]) -> Bool {
    guard let end = stat.lastIndex(of: UInt8(ascii: ")")) else { return true }
    let fields = stat[(end + 1)...].split(separator: UInt8(ascii: " "))
    return fields.count > 6 && (UInt64(String(decoding: fields[6], as: UTF8.self)) ?? 0) & 4 != 0
  }

  private func owner(of id: ProcessID) -> String? {
    if let known = owners[id] { return known }
    guard let bytes = SystemFile.bytes("/proc/\(id.pid)/environ") else { return nil }
    let data = Data(bytes)
    guard let place = data.range(of: tag) else { return nil }
    let name = String(decoding: data[place.upperBound...].prefix { $0 != 0 }, as: UTF8.self)
    owners[id] = name
    return name
  }

  /// Nanoseconds.
  private func time(of pid: Int32) -> UInt64 {
    SystemFile.text("/proc/\(pid)/schedstat")?.split(separator: " ").first.flatMap { UInt64($0) } ?? 0
  }

  private func group(of pid: Int32) -> String {
    SystemFile.text("/proc/\(pid)/cgroup")?.split(separator: "\n").first { $0.hasPrefix("0::") }.map {
      String($0.dropFirst(3))
    } ?? ""
  }

  private func used() throws -> (descriptors: Int, memory: Int) {
    let pid = host.process.processIdentifier
    let pages = SystemFile.text("/proc/\(pid)/statm")?.split(separator: " ").dropFirst().first
    let memory = pages.flatMap { Int($0) }.map { $0 * sysconf(Int32(_SC_PAGESIZE)) } ?? 0
    return (SystemFile.names(in: "/proc/\(pid)/fd").count, memory)
  }

  // MARK: A step

  private func choose(_ random: inout SplitMix64) -> (Act, String) {
    func below(_ limit: Int) -> Int { Int(random.next() % UInt64(limit)) }
    let name = names[below(names.count)]
    let (way, inFront, die, what) = (below(2), below(3) == 0, below(4), below(34))
    let isThere = model.apps[name] != nil
    if !isThere, die > 0 {
      if model.manifests.contains(name) { return (.launch(.start, foreground: inFront), name) }
      return (.launch(way == 0 ? .run : .adopt, foreground: inFront), name)
    }
    let act: Act =
      switch what {
      case 0..<5: .ask(.front)
      case 5..<11: .ask(.suspend)
      case 11..<15: .ask(.resume)
      case 15, 16: .ask(.hibernate)
      case 17: .ask(.keep(seconds: nil))
      case 18, 19: .ask(.keep(seconds: 0.2 + Double(die) * 0.3))
      case 20, 21: .ask(.endKeep)
      case 22..<25: .ask(.terminate)
      case 25, 26: .killOne
      case 27: .killAll
      case 28: .stopOne
      case 29, 30: .continueOne
      case 31: isThere ? .launch(.adopt, foreground: inFront) : .look
      case 32: .adoptMember
      default: .ask(.start(foreground: inFront))
      }
    return (act, name)
  }

  /// One act of the user's or somebody else's, and what is to be true then.
  func act() async throws {
    step += 1
    var random = SplitMix64(seed: seed, number: UInt64(step))
    let (act, name) = choose(&random)
    history.append("\(step) \(name): \(act)")
    if history.count > 20 { history.removeFirst() }
    hear()
    do {
      let pick = Int(random.next() % 1000)
      if !model.manifests.contains(name), model.apps[name] == nil, case .launch(let way, _) = act {
        try makeProgram(name, random, isAdopted: way == .adopt)
      }
      if let why = try await perform(act, name, pick) { throw wrong(why) }
      try await compare()
    } catch let error as Wrong { throw error } catch { throw wrong("\(error)") }
  }

  private func wrong(_ what: String) -> Wrong {
    hear()
    let apps = model.apps.map { "\($0.key) \($0.value.state.rawValue)" }.sorted().joined(separator: ", ")
    return Wrong(
      description: """
        \(what)
        expected: \(apps)
        seed \(seed), by \(backend.rawValue), step \(step); the last steps:
        \(history.joined(separator: "\n"))
        the host has said: \(said)
        """)
  }

  /// Keeps the host's standard error from being full.
  private func hear() { if errors.comes(within: 0) { said = String((said + errors.take()).suffix(2000)) } }

  /// - Parameter pick: chooses among what there is.
  /// - Returns: what is wrong.
  private func perform(_ act: Act, _ name: String, _ pick: Int) async throws -> String? {
    switch act {
    case .launch(.start, let foreground): return try await ask(.start(foreground: foreground), name)
    case .launch(.run, let foreground): return try await run(name, foreground)
    case .launch(.adopt, let foreground): return try await adopt(name, foreground)
    case .ask(let request): return try await ask(request, name)
    case .adoptMember:
      guard let app = model.apps[name], !app.mayEnd, app.state != .terminated,
        let member = programs[name]?.main
      else { return nil }
      var request = HostRequest(.adopt, name: "other")
      request.pid = member
      let answer = try send(request).answer
      return answer == .refused(.another) ? nil : "the adoption of a member is answered '\(answer)'"
    case .killOne, .killAll, .stopOne, .continueOne: return try await meddle(act, name, pick)
    case .look: return nil
    }
  }

  private func ask(_ request: DayModel.Request, _ name: String) async throws -> String? {
    var asked: HostRequest
    switch request {
    case .launch: return nil
    case .start(let foreground):
      asked = HostRequest(.start, name: name)
      asked.foreground = foreground
    case .front:
      switches += 1
      asked = HostRequest(.front, name: name)
    case .suspend: asked = HostRequest(.suspend, name: name)
    case .resume: asked = HostRequest(.resume, name: name)
    case .hibernate: asked = HostRequest(.hibernate, name: name)
    case .terminate: asked = HostRequest(.terminate, name: name)
    case .keep(let seconds):
      asked = HostRequest(.keep, name: name)
      asked.seconds = seconds
      asked.reason = "the day"
    case .endKeep:
      asked = HostRequest(.keep, name: name)
      asked.end = true
    }
    let (before, count) = (model.apps[name]?.state, counted(name))
    let told = try send(asked)
    // Whether anything was started is told of `start` alone.
    var answer = told.answer
    if case .front = request, answer == .done, model.manifests.contains(name) {
      if before == nil {
        answer = .started
      } else if model.expected(request, of: name, asked: told.asked, answered: told.answered).contains(
        .started),
        let main = try main(of: name), main != programs[name]?.main
      {
        answer = .started
      }
    }
    if case .refused = answer { refusals += 1 }
    if let why = model.follow(request, of: name, answer, asked: told.asked, answered: told.answered) {
      return "\(name): \(why)"
    }
    if answer == .started {
      let pid = try told.pid ?? main(of: name)
      began(name, main: pid, nil)
      return try await counts(name, more: count)
    }
    let after = model.apps[name]?.state
    if after == .terminated {
      if before?.isStopped == true { programs[name]?.isEndedStopped = true }
    } else if before?.isStopped != true, after?.isStopped == true {
      stops += 1
      noteStop(name)
    } else if before?.isStopped == true, after?.isStopped != true {
      programs[name]?.stoppedAt = nil
      return try await counts(name, more: count)
    }
    return nil
  }

  /// Of one that a manifest has started.
  private func main(of name: String) throws -> Int32? {
    let parent = host.process.processIdentifier
    let entry = try host.ask(.apps, nil).apps?.first { $0.id == name }
    return entry?.pids.first { ProcessStat(of: $0)?.parent == parent }
  }

  private func noteStop(_ name: String) {
    let times = (living()[name] ?? []).map { ($0.id, time(of: $0.pid)) }
    programs[name]?.stoppedAt = (counted(name), Dictionary(times) { first, _ in first })
  }

  /// It goes on: waits until it has counted, unless nothing is there that could.
  private func counts(_ name: String, more before: UInt64) async throws -> String? {
    let end = ContinuousClock.now + patience
    while counted(name) <= before {
      let able = (living()[name] ?? []).filter {
        $0.pid != programs[name]?.waiter && !($0.isStopped && programs[name]?.mayBeStopped == true)
      }
      if able.isEmpty, model.apps[name]?.mayEnd == true || programs[name]?.mayBeStopped == true { return nil }
      guard ContinuousClock.now < end else { return "\(name): nothing of \(able.map(\.pid)) goes on" }
      try? await Task.sleep(for: .milliseconds(1))
    }
    return nil
  }

  private func send(_ request: HostRequest) throws -> (
    answer: DayModel.Answer, pid: Int32?, asked: DayModel.Instant, answered: DayModel.Instant
  ) {
    let asked = ContinuousClock.now
    do throws(PushError) {
      let told = try request.send(to: place.path, within: .seconds(60))
      if let wait = told.wait { throw PushError(.refused("it is to be waited for \(wait) s")) }
      return (told.pid == nil ? .done : .started, told.pid, asked, .now)
    } catch {
      guard case .refused(let words) = error.code,
        let why = DayModel.Refusal.allCases.first(where: { words.contains($0.rawValue) })
      else { throw Wrong(description: "the answer to \(request.request) is: \(error)") }
      return (.refused(why), nil, asked, .now)
    }
  }

  private func began(_ name: String, main: Int32?, _ launched: Process?) {
    launches += 1
    guard let old = programs[name] else { return }
    programs[name] = Program(
      traits: old.traits, life: old.life, seed: old.seed, main: main, launched: launched)
  }

  private func run(_ name: String, _ foreground: Bool) async throws -> String? {
    let count = counted(name)
    let asked = ContinuousClock.now
    let program = try startProgram(
      [try OpportuneHostTests.command().path, "run", "--socket", place.path, "--name", name]
        + (foreground ? ["--foreground"] : []) + ["--"] + command(name), isQuiet: true)
    try await eventually("the start of \(name)") { counted(name) > count || !program.isRunning }
    guard counted(name) > count else { return "\(name): opportune run ended without its program" }
    began(name, main: program.processIdentifier, program)
    return model.follow(.launch(foreground: foreground), of: name, .done, asked: asked, answered: .now)
  }

  private func adopt(_ name: String, _ foreground: Bool) async throws -> String? {
    // Where the name is taken any process will do.
    let isTaken = model.apps[name] != nil
    let count = counted(name)
    var request = HostRequest(.adopt, name: name)
    request.foreground = foreground
    if isTaken {
      request.pid = getpid()
      let told = try send(request)
      if model.apps[name]?.mayEnd == true || model.apps[name]?.state == .terminated { return nil }
      return model.follow(
        .launch(foreground: foreground), of: name, told.answer, asked: told.asked, answered: told.answered)
    }
    let program = try startProgram(command(name, leads: true), isQuiet: true)
    try await eventually("the start of \(name)") { counted(name) > count || !program.isRunning }
    request.pid = program.processIdentifier
    let told = try send(request)
    began(name, main: program.processIdentifier, program)
    programs[name]?.waiter = program.processIdentifier
    return model.follow(
      .launch(foreground: foreground), of: name, told.answer, asked: told.asked, answered: told.answered)
  }

  /// Somebody else does something to processes of an app.
  private func meddle(_ act: Act, _ name: String, _ pick: Int) async throws -> String? {
    guard let app = model.apps[name] else { return nil }
    let all = (living()[name] ?? []).sorted { $0.pid < $1.pid }
    guard !all.isEmpty else { return nil }
    let one = all[pick % all.count].id
    switch act {
    case .killOne:
      kills += 1
      model.wasHurt(name)
      one.signal(SIGKILL)
    case .killAll:
      kills += 1
      model.wasHurt(name)
      let end = ContinuousClock.now + patience
      while let left = living()[name] {
        for one in left { one.id.signal(SIGKILL) }
        guard ContinuousClock.now < end else { return "\(name): \(left.map(\.pid)) are not killed" }
        await Task.yield()
      }
      model.wasKilled(name, by: .now)
    case .stopOne:
      programs[name]?.mayBeStopped = true
      one.signal(SIGSTOP)
    case .continueOne:
      // Signals stop it in the same way: it would go on behind the host's back, as the host says.
      if backend == .signals, app.state.isStopped { return nil }
      for one in all { one.id.signal(SIGCONT) }
    default: break
    }
    // What is woken for a signal has run a little, though none of its own code.
    if app.state.isStopped, let stopped = programs[name]?.stoppedAt {
      let times = (living()[name] ?? []).map { ($0.id, time(of: $0.pid)) }
      programs[name]?.stoppedAt = (stopped.count, Dictionary(times) { first, _ in first })
    }
    return nil
  }

  // MARK: What is to be true

  /// Waits for what may pass.
  private func compare() async throws {
    let end = ContinuousClock.now + patience
    while let found = try difference() {
      guard found.mayPass, ContinuousClock.now < end else { throw wrong(found.what) }
      try? await Task.sleep(for: .milliseconds(1))
    }
  }

  /// What there is, against the model and against what the host tells; `nil`: they agree.
  private func difference() throws -> Difference? {
    let before = living().mapValues { Set($0.map(\.id)) }
    let asked = ContinuousClock.now
    let entries = try host.ask(.apps, nil).apps ?? []
    let answered = ContinuousClock.now
    let after = living()
    let all = Set(after.values.joined().map(\.id)).union(before.values.joined())
    if Set(entries.map(\.id)).count < entries.count { return Difference(what: "an app is there twice") }
    let pids = entries.flatMap(\.pids)
    if Set(pids).count < pids.count { return Difference(what: "a process is of two apps") }
    for entry in entries where model.apps[entry.id] == nil {
      return Difference(what: "\(entry.id) is listed, and has ended", mayPass: true)
    }
    for (name, processes) in after where model.apps[name] == nil {
      return Difference(what: "\(processes.map(\.pid)) of \(name) are there, which has ended", mayPass: true)
    }
    for (name, app) in model.apps.sorted(by: { $0.key < $1.key }) {
      let entry = entries.first { $0.id == name }
      let processes = after[name] ?? []
      if processes.isEmpty, before[name] == nil, entry == nil {
        if let why = model.ended(name) { return Difference(what: "\(name): \(why)") }
        continue
      }
      if let found = difference(
        of: name, app, entry, processes, before: before[name] ?? [], all: all, asked, answered)
      {
        return Difference(what: "\(name): \(found.what)", mayPass: found.mayPass)
      }
    }
    return nil
  }

  private func difference(
    of name: String, _ app: DayModel.App, _ entry: AppEntry?, _ processes: [Living], before: Set<ProcessID>,
    all: Set<ProcessID>, _ asked: DayModel.Instant, _ answered: DayModel.Instant
  ) -> Difference? {
    if let end = app.endsBy, answered > end {
      return Difference(what: "\(processes.map(\.pid)) are there though their time is over")
    }
    if let found = isQuiet(name, app, processes) { return found }
    guard let entry else {
      return Difference(
        what: "\(processes.map(\.pid)) are listed nowhere", mayPass: app.state == .terminated || app.mayEnd)
    }
    if entry.state != app.state.rawValue {
      return Difference(what: "it is \(entry.state), expected \(app.state.rawValue)")
    }
    // Who was there before the host was asked and after.
    let listed = Set(entry.pids)
    let lost = processes.filter { before.contains($0.id) && !listed.contains($0.pid) }
    if !lost.isEmpty { return Difference(what: "\(lost.map(\.pid)) are lost, of \(entry.pids)") }
    let known = Set(all.map(\.pid))
    let others = listed.filter { !known.contains($0) && ProcessStat(of: $0)?.hasEnded == false }
    if !others.isEmpty { return Difference(what: "\(others) are none of it", mayPass: true) }
    if let main = programs[name]?.main, !app.mayEnd, app.state != .terminated,
      !processes.contains(where: { $0.pid == main })
    {
      return Difference(what: "its first process \(main) has ended, and nobody has ended it")
    }
    let isKept = entry.keptBy.contains { $0.hasPrefix("exempt") }
    let isToBe = app.keep.map { $0.holds(from: asked, to: answered) } ?? false
    if let isToBe, isKept != isToBe {
      return Difference(what: "it is kept by \(entry.keptBy), expected \(isToBe)", mayPass: true)
    }
    return isFrozenRightly(name, app, entry, processes, before: before)
  }

  /// Nothing of what is stopped executes.
  private func isQuiet(_ name: String, _ app: DayModel.App, _ processes: [Living]) -> Difference? {
    guard let stopped = programs[name]?.stoppedAt,
      app.state.isStopped || programs[name]?.isEndedStopped == true
    else { return nil }
    let count = counted(name)
    if count != stopped.count {
      return Difference(what: "it has executed while it was stopped: \(stopped.count), then \(count)")
    }
    guard app.state.isStopped else { return nil }
    for one in processes {
      let time = time(of: one.pid)
      guard let before = stopped.times[one.id] else {
        return Difference(what: "\(one.pid) was not there when it was stopped")
      }
      if time > before + 5_000_000 {
        return Difference(what: "\(one.pid) has run \(time - before) ns while it was stopped")
      }
    }
    return nil
  }

  private func isFrozenRightly(
    _ name: String, _ app: DayModel.App, _ entry: AppEntry, _ processes: [Living], before: Set<ProcessID>
  ) -> Difference? {
    let lasting = processes.filter { before.contains($0.id) }
    if let folder = entry.cgroup {
      let outside = lasting.filter { !group(of: $0.pid).hasSuffix("/\(name)") && isThere($0) }
      if !outside.isEmpty { return Difference(what: "\(outside.map(\.pid)) are not in \(folder)") }
      let isFrozen = SystemFile.text(folder + "/cgroup.freeze")?.hasPrefix("1")
      if app.state.isStopped, isFrozen == false { return Difference(what: "\(folder) is not frozen") }
      if app.state.runs, isFrozen == true { return Difference(what: "\(folder) is frozen") }
    } else if app.state.isStopped {
      let running = lasting.filter { !$0.isStopped }
      if !running.isEmpty { return Difference(what: "\(running.map(\.pid)) run, and are to be stopped") }
    }
    if app.state.runs, programs[name]?.mayBeStopped != true {
      let stopped = lasting.filter(\.isStopped)
      if !stopped.isEmpty { return Difference(what: "\(stopped.map(\.pid)) are stopped, and are to run") }
    }
    return nil
  }

  /// Whoever has begun to end meanwhile is in no group any more.
  private func isThere(_ one: Living) -> Bool {
    guard let bytes = SystemFile.bytes("/proc/\(one.pid)/stat"), let stat = ProcessStat(one.pid, bytes) else {
      return false
    }
    return stat.id == one.id && !stat.hasEnded && !Self.isExiting(bytes)
  }

  /// Ends all programs, then the host: nothing of them may be left, and the host has no more than after its
  /// first app.
  func end() async throws {
    history.append("the end")
    for name in model.apps.keys.sorted() {
      if let why = try await ask(.terminate, name) { throw wrong(why) }
    }
    try await eventually("the end of all apps") {
      if let found = try difference(), !found.mayPass { throw wrong(found.what) }
      return model.apps.isEmpty
    }
    try await compare()
    var now = try used()
    for _ in 0..<1000 where now.descriptors > usedBefore.descriptors {
      try? await Task.sleep(for: .milliseconds(2))
      now = try used()
    }
    growth = now.memory - usedBefore.memory
    if now.descriptors > usedBefore.descriptors {
      throw wrong("the host has \(now.descriptors) descriptors, \(usedBefore.descriptors) before the day")
    }
    if growth > 16 << 20 { throw wrong("the host has \(growth) bytes more than before the day") }
    if !groups().isEmpty { throw wrong("these groups are left: \(groups())") }
    let children = ProcessTable.all().filter { $0.parent == host.process.processIdentifier && $0.hasEnded }
    if !children.isEmpty { throw wrong("the host has not reaped \(children.map(\.pid))") }
    host.end()
    let left = SystemFile.names(in: place.folder.path).filter { $0.hasPrefix("host.sock") }
    if !left.isEmpty { throw wrong("the host has left \(left)") }
  }

  /// Groups of apps of any version that bear the host's key.
  private func groups() -> [String] {
    let key = HostSocket.key(of: place.path)
    guard let all = FileManager.default.enumerator(atPath: "/sys/fs/cgroup") else { return [] }
    // Each group has this file.
    return all.compactMap { $0 as? String }.filter {
      $0.hasSuffix("/cgroup.procs") && $0.contains(key + "/") && !$0.hasSuffix(key + "/cgroup.procs")
    }
  }

  deinit { for one in living().values.joined() { one.id.signal(SIGKILL) } }
}
