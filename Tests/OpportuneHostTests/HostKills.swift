import Foundation
import OpportuneBase
import TestSupport
import Testing

@testable import OpportuneHost

/// Kills `opportune host` by SIGKILL, again and again, while a client of it launches, adopts, suspends,
/// resumes, fronts and terminates apps with children, and looks after each kill at what has become of their
/// processes.
///
/// What there is, is told by the programs' environments and by /proc, not by the host.
final class HostKills {
  /// What is wrong after a kill.
  struct Wrong: Error, CustomStringConvertible { let description: String }

  /// What comes after a kill.
  private enum Aftermath: String {
    case wardenFirst = "the warden alone"
    case atOnce = "the next host at once"
    case bothKilled = "the warden killed as well"
  }

  private enum Way: CaseIterable { case manifest, run, adopt }

  private let backend: Backend
  /// How long anything may stay frozen.
  private let limit: Duration
  private let tag = Data("OPPORTUNE_KILLS=\(Hosted.newKey()):".utf8)
  private let place: Place
  private var random: SplitMix64
  private var host: HostProgram
  private let errors: Output
  private var made = 0
  /// Who was asked to end, and may.
  private var doomed: Set<String> = []
  private var round = 0

  private(set) var slowestThaw = Duration.zero
  /// Kills that found something frozen, and suspensions by a host that had found its apps.
  private(set) var killsWithFrozen = 0
  private(set) var suspensions = 0

  init(_ backend: Backend, seed: UInt64, limit: Duration) async throws {
    (self.backend, self.limit) = (backend, limit)
    random = SplitMix64(seed: seed)
    place = try Place()
    errors = try Output()
    host = try await Self.start(place, backend, errors)
  }

  private static func start(_ place: Place, _ backend: Backend, _ errors: Output) async throws -> HostProgram
  {
    errors.take()
    return try await HostProgram(
      place, backend, grace: 0.3, options: ["--front", "none", "--manifests", place.folder.path],
      errors: errors)
  }

  private func below(_ limit: Int) -> Int { Int(random.next() % UInt64(limit)) }

  /// Short times as often as long ones, in microseconds.
  private func moment(_ longest: Double) -> UInt32 {
    UInt32(exp(Double(below(10_000)) / 10_000 * log(longest)))
  }

  // MARK: What there is

  /// The processes of the programs, by the programs' names.
  private func living() -> [String: [ProcessStat]] {
    var result: [String: [ProcessStat]] = [:]
    for pid in ProcessTable.pids() {
      guard let bytes = SystemFile.bytes("/proc/\(pid)/environ") else { continue }
      let data = Data(bytes)
      let name = data.range(of: tag).map {
        String(decoding: data[$0.upperBound...].prefix { $0 != 0 }, as: UTF8.self)
      }
      if let name, let stat = ProcessStat(of: pid), !stat.hasEnded { result[name, default: []].append(stat) }
    }
    return result
  }

  /// Whether it stays until it is ended: others come and go all the time.
  private func isLasting(_ process: ProcessStat) -> Bool {
    SystemFile.text("/proc/\(process.pid)/cmdline") == "sleep\0100000\0"
  }

  private func isFrozen(_ process: ProcessStat) -> Bool {
    if ProcessStat(of: process.pid).map({ $0.id == process.id && $0.isStopped }) == true { return true }
    guard let group = ControlGroupTree.group(of: process.pid) else { return false }
    return SystemFile.value(of: "frozen", in: group + "/cgroup.events") == 1
      || SystemFile.text(group + "/cgroup.freeze")?.hasPrefix("1") == true
  }

  private func frozen() -> [ProcessStat] { living().values.joined().filter(isFrozen) }

  // MARK: What the client does

  private enum Step {
    case launch(Way, String)
    case ask(HostRequest.Action, String)
  }

  private func choose(_ names: [String]) -> Step {
    if names.count < 3 || (names.count < 7 && below(3) == 0) {
      made += 1
      return .launch(Way.allCases[below(Way.allCases.count)], "app\(made)")
    }
    let name = names.sorted()[below(names.count)]
    let actions: [HostRequest.Action] = [.suspend, .suspend, .suspend, .resume, .resume, .front, .terminate]
    return .ask(actions[below(actions.count)], name)
  }

  private func command(_ name: String, lasts: Bool = false) -> [String] {
    let scripts = [
      "sleep 100000 & sleep 100000 & setsid sleep 100000 & wait",
      "(sh -c 'sleep 100000 & sleep 100000') & exec sleep 100000",
      "trap '' TERM; sleep 100000 & while :; do sleep 0.02; done",
      "sleep 0.2 & sleep 0.5",
    ]
    let tag = String(decoding: tag, as: UTF8.self) + name
    return ["/usr/bin/env", tag, "/bin/sh", "-c", scripts[below(scripts.count - (lasts ? 1 : 0))]]
  }

  /// Begins it, and does not wait for the host.
  ///
  /// - Returns: what is to be kept until then.
  private func begin(_ step: Step) async throws -> AnyObject {
    switch step {
    case .ask(let action, let name):
      if action == .terminate { doomed.insert(name) }
      return try send(HostRequest(action, name: name))
    case .launch(.manifest, let name):
      try write(name)
      return try send(HostRequest(.start, name: name))
    case .launch(.run, let name): return try run(name)
    case .launch(.adopt, let name): return try send(try await adoption(name))
    }
  }

  private func write(_ name: String) throws {
    try writeManifest(command(name), name: name, in: place.folder.path)
  }

  private func run(_ name: String) throws -> Process {
    try start(
      [try OpportuneHostTests.command().path, "run", "--socket", place.path, "--name", name, "--"]
        + command(name))
  }

  /// Starts a program that is to be taken in.
  private func adoption(_ name: String) async throws -> HostRequest {
    let program = try start(command(name, lasts: true))
    // Before, it is none of the programs yet.
    try await eventually("the program's start") { living()[name]?.contains(where: isLasting) == true }
    var request = HostRequest(.adopt, name: name)
    request.pid = program.processIdentifier
    return request
  }

  private func send(_ request: HostRequest) throws -> AnyObject {
    let client = try RawClient(place.path)
    try client.send(Array(try JSONEncoder().encode(request)) + [10])
    return client
  }

  private func start(_ words: [String]) throws -> Process {
    try startProgram(words, isQuiet: true)
  }

  /// To its end, which may be a refusal.
  private func perform(_ step: Step) async throws {
    switch step {
    case .ask(let action, let name):
      if action == .terminate { doomed.insert(name) }
      _ = try? host.ask(action, name)
    case .launch(.manifest, let name):
      try write(name)
      try host.ask(.start, name)
    case .launch(.run, let name):
      let program = try run(name)
      // It may be one that ends by itself.
      try await eventually("the launch of \(name)") { living()[name] != nil || !program.isRunning }
    case .launch(.adopt, let name):
      _ = try (try await adoption(name)).send(to: place.path)
    }
  }

  // MARK: A kill

  /// Some steps, a kill in the middle of the last, and what is to be true then.
  func kill() async throws {
    round += 1
    for _ in 0..<below(4) { try await perform(choose(Array(living().keys))) }
    let last = choose(Array(living().keys))
    let before = living().filter { !doomed.contains($0.key) }.mapValues { $0.filter(isLasting) }
    if !frozen().isEmpty { killsWithFrozen += 1 }
    let kept = try await begin(last)
    var unsure: String?
    if case .launch(let way, let name) = last {
      if way == .adopt { unsure = name }
      if way == .run { usleep(moment(100_000)) } else { usleep(moment(20_000)) }
    } else {
      usleep(moment(20_000))
    }
    let aftermath: Aftermath = [.wardenFirst, .wardenFirst, .atOnce, .bothKilled][below(4)]
    try await killHost(aftermath, last)
    withExtendedLifetime(kept) {}
    let expected = before.filter { !doomed.contains($0.key) }
    try await check(expected, unsure: unsure, "\(aftermath.rawValue), \(last)")
  }

  private func killHost(_ aftermath: Aftermath, _ last: Step) async throws {
    let pid = host.process.processIdentifier
    let warden = ProcessTable.all().first {
      $0.parent == pid && ProcessTable.command(of: $0.pid) == "opportune-ward"
    }
    if aftermath == .bothKilled { warden?.id.signal(SIGKILL) }
    Glibc.kill(pid, SIGKILL)
    var began = ContinuousClock.now
    host.process.waitUntilExit()
    if aftermath != .wardenFirst {
      host = try await Self.start(place, backend, errors)
      if aftermath == .bothKilled { began = .now }
    }
    // What is frozen by now was so at the kill, since nobody is asked for anything.
    var left = frozen()
    while !left.isEmpty {
      guard began.duration(to: .now) < limit else {
        throw wrong("\(left.map(\.pid)) stayed frozen for \(limit) after \(aftermath.rawValue), \(last)")
      }
      await Task.yield()
      left = left.filter(isFrozen)
    }
    // Else the start of the next host is in it.
    if aftermath == .wardenFirst {
      slowestThaw = max(slowestThaw, began.duration(to: .now))
      host = try await Self.start(place, backend, errors)
    }
  }

  private func wrong(_ what: String) -> Wrong { Wrong(description: "kill \(round): \(what)") }

  /// - Parameter unsure: an app that the host may have taken in or not.
  private func check(_ before: [String: [ProcessStat]], unsure: String?, _ how: String) async throws {
    for (name, processes) in before {
      for one in processes where ProcessStat(of: one.pid).map({ $0.id != one.id || $0.hasEnded }) != false {
        throw wrong("process \(one.pid) of \(name) is lost, after \(how)")
      }
    }
    // Who was asked to end may do so meanwhile, and a program that was about to start may come.
    var problem: String? = ""
    let end = ContinuousClock.now + .seconds(10)
    while problem != nil, ContinuousClock.now < end {
      problem = try difference(unsure)
      if problem != nil { await Task.yield() }
    }
    if let problem { throw wrong("\(problem), after \(how)") }
    if let unsure, try host.ask(.apps, nil).apps?.contains(where: { $0.id == unsure }) != true {
      for one in living()[unsure] ?? [] { one.id.signal(SIGKILL) }
    }
    try await suspendOnce(how)
  }

  /// What the host tells, against what there is; `nil`: it knows its apps.
  private func difference(_ unsure: String?) throws -> String? {
    let entries = try host.ask(.apps, nil).apps ?? []
    let living = living()
    if let twice = Dictionary(grouping: entries, by: \.id).first(where: { $0.value.count > 1 }) {
      return "the app \(twice.key) is there twice"
    }
    if let twice = Dictionary(grouping: entries.flatMap(\.pids), by: \.self).first(where: {
      $0.value.count > 1
    }) {
      return "process \(twice.key) is of two apps"
    }
    for entry in entries where entry.pids.isEmpty { return "the app \(entry.id) is listed and empty" }
    for entry in entries where entry.state == "suspended" { return "the app \(entry.id) is suspended" }
    for (name, processes) in living {
      let entry = entries.first { $0.id == name }
      if entry == nil, name == unsure { continue }
      let missing = processes.filter(isLasting).map(\.pid).filter { entry?.pids.contains($0) != true }
      if !missing.isEmpty {
        return "processes \(missing) of \(name) are listed \(entry == nil ? "nowhere" : "not")"
      }
    }
    if let one = living.values.joined().first(where: isFrozen) { return "process \(one.pid) is frozen again" }
    return nil
  }

  /// A warden of before does not thaw what this host suspends, and one resumption is enough.
  private func suspendOnce(_ how: String) async throws {
    let names = living().filter { !doomed.contains($0.key) && $0.value.contains(where: isLasting) }.keys
      .sorted()
    guard !names.isEmpty else { return }
    let name = names[below(names.count)]
    guard (try? host.ask(.suspend, name)) != nil else { return }
    suspensions += 1
    let running = (living()[name] ?? []).filter { !isFrozen($0) }
    if !running.isEmpty { throw wrong("\(running.map(\.pid)) of \(name) run though suspended, after \(how)") }
    try host.ask(.resume, name)
    let stuck = (living()[name] ?? []).filter(isFrozen)
    if !stuck.isEmpty { throw wrong("\(stuck.map(\.pid)) of \(name) are frozen twice, after \(how)") }
  }

  /// Ends all programs, then the host; nothing of it may be left.
  func end() async throws {
    for name in living().keys { _ = try? host.ask(.terminate, name) }
    try await eventually("the end of all apps") { try host.ask(.apps, nil).apps?.isEmpty == true }
    let left = living()
    if !left.isEmpty { throw wrong("\(left.keys.sorted()) were not ended with their apps") }
    host.end()
  }

  deinit { for one in living().values.joined() { one.id.signal(SIGKILL) } }
}
