import Foundation
import OpportuneApps
import OpportuneBase
import OpportuneMemory
import ToolSupport

extension ReplayReport {
  /// For people.
  package func text(divergencesShown: Int = 20, removalsShown: Int = 10) -> String {
    if !sums.isEmpty {
      let total = sums.values.reduce(0, +)
      var lines = [
        "\(format): sums of \(apps.count) apps, \(time(start)) to \(time(end)), \(hours(total)) in all"
      ]
      lines += notes.map { "note: \($0)" }
      lines.append("only sums were recorded, so there is nothing to replay; seconds in front:")
      for (app, seconds) in sums.sorted(by: { ($1.value, $0.key) < ($0.value, $1.key) }).prefix(20) {
        lines.append("  \(pad("\(Int(seconds))", 9, left: true))  \(app)")
      }
      if sums.count > 20 { lines.append("  … \(sums.count - 20) more; --json has all") }
      return lines.asLines
    }
    var lines = ["\(format): \(events) events of \(apps.count) apps, \(time(start)) to \(time(end))"]
    lines += notes.map { "note: \($0)" }
    lines.append("time in states, all apps together:")
    for state in LifecycleState.Operational.allCases {
      if let seconds = seconds[state] { lines.append("  \(pad(state.rawValue, 12)) \(hours(seconds))") }
    }
    let all = switchCount
    lines.append(
      "switches: \(all)" + (all > 0 ? ", \(changes) to another app, \(all - changes) back to the same" : ""))
    for kind in Switch.allCases {
      guard let count = switches[kind], all > 0 else { continue }
      lines.append(
        "  \(pad(kind == .cold ? "cold start" : "from \(kind.rawValue)", 16)) \(pad("\(count)", 6, left: true))  \(percent(count, all))"
      )
    }
    lines.append("background time: granted at most \(hours(granted)), used \(hours(used))")
    lines.append("assertions: \(assertions) taken, \(refusals) refused")
    lines.append(
      "kills: "
        + (kills.isEmpty
          ? "none" : kills.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", "))
    )
    if let memory {
      lines.append(
        "memory: \(memory.inMegabytes), apps are removed from \(criticalPoint.share.inPercent) of it on; "
          + removals.summary + (reanimations > 0 ? ", \(reanimations) reanimated" : ""))
      if removalsShown > 0 { lines += removals.lines(shown: removalsShown) }
    }
    if compared + notObservable > 0 {
      lines.append(
        "recorded states: \(compared) compared, \(compared - divergences.count) the same, \(divergences.count) differ, \(notObservable) not observable"
      )
      for cause in DivergenceCause.allCases {
        let count = divergences.count { $0.cause == cause }
        if count > 0 { lines.append("  \(pad(cause.rawValue, 22)) \(count)") }
      }
      for one in divergences.prefix(divergencesShown) {
        lines.append(
          "  \(time(one.at)) \(one.app): expected \(one.expected.rawValue), got \(one.got.rawValue) (\(one.cause.rawValue))"
        )
      }
      if divergences.count > divergencesShown {
        lines.append("  … \(divergences.count - divergencesShown) more; --json has all")
      }
    }
    lines.append("log hash: \(String(hash, radix: 16))")
    return lines.asLines
  }

  /// The same for programs, with keys in a fixed order.
  package func json() throws -> String {
    struct Row: Encodable { let at: Double, app, expected, got, cause: String }
    struct Document: Encodable {
      let format: String
      let start, end: Double
      let events: Int
      let apps: [String]
      let seconds: [String: Double]
      let switches: [String: Int]
      let changes: Int
      let backgroundGranted, backgroundUsed: Double
      let assertions, refusals: Int
      let kills: [String: Int]
      let memory: UInt64?
      let criticalPoint: Double?
      let removals: [ReplayRemoval]
      let reanimations: Int
      let compared, notObservable: Int
      let divergences: [Row]
      let sums: [String: Double]
      let brokenRules: [String: [String: Int]]
      let logHash: String
      let notes: [String]
    }
    let document = Document(
      format: format, start: start, end: end, events: events, apps: apps,
      seconds: Dictionary(uniqueKeysWithValues: seconds.map { ($0.key.rawValue, $0.value) }),
      switches: Dictionary(uniqueKeysWithValues: switches.map { ($0.key.rawValue, $0.value) }),
      changes: changes, backgroundGranted: granted, backgroundUsed: used, assertions: assertions,
      refusals: refusals,
      kills: kills,
      memory: memory, criticalPoint: memory.map { _ in criticalPoint.share }, removals: removals,
      reanimations: reanimations, compared: compared, notObservable: notObservable,
      divergences: divergences.map {
        Row(
          at: $0.at, app: $0.app, expected: $0.expected.rawValue, got: $0.got.rawValue,
          cause: $0.cause.rawValue)
      },
      sums: sums,
      brokenRules: rules.mapValues { Dictionary(uniqueKeysWithValues: $0.map { ($0.key.id, $0.value) }) },
      logHash: String(hash, radix: 16), notes: notes)
    return try jsonText(of: document, indented: false)
  }

  /// A timeline for Perfetto and chrome://tracing: one process for each app, one slice for each stay in a
  /// state.
  package func traceEvents() throws -> String {
    struct Event: Encodable {
      var name, ph: String
      var pid, tid: Int
      var ts, dur: Double?
      var cat: String?
      var args: [String: String]?
    }
    struct Document: Encodable {
      let traceEvents: [Event]
      let displayTimeUnit = "ms"
    }
    var events = apps.enumerated().map {
      Event(name: "process_name", ph: "M", pid: $0.offset + 1, tid: 1, args: ["name": $0.element])
    }
    let pids = Dictionary(
      apps.enumerated().map { ($0.element, $0.offset + 1) }, uniquingKeysWith: { first, _ in first })
    for span in spans {
      events.append(
        Event(
          name: span.state.rawValue, ph: "X", pid: pids[span.app] ?? 0, tid: 1,
          ts: ((span.start - start) * 1e6).rounded(),
          dur: ((span.end - span.start) * 1e6).rounded(), cat: "state"))
    }
    for one in divergences {
      events.append(
        Event(
          name: "expected \(one.expected.rawValue)", ph: "i", pid: pids[one.app] ?? 0, tid: 1,
          ts: ((one.at - start) * 1e6).rounded(), cat: "divergence",
          args: ["got": one.got.rawValue, "cause": one.cause.rawValue]))
    }
    for one in removals {
      events.append(
        Event(
          name: one.method == .hibernate ? "hibernated" : "terminated", ph: "i", pid: pids[one.app] ?? 0,
          tid: 1,
          ts: ((one.at - start) * 1e6).rounded(), cat: "removal", args: ["why": one.reason]))
    }
    return try jsonText(of: Document(traceEvents: events), indented: false)
  }

}

func time(_ seconds: Double) -> String {
  Date(timeIntervalSince1970: seconds).formatted(.iso8601)
}

func hours(_ seconds: Double) -> String {
  let whole = Int(seconds.rounded())
  return whole >= 3600
    ? "\(whole / 3600) h \(whole % 3600 / 60) min"
    : whole >= 60 ? "\(whole / 60) min \(whole % 60) s" : "\(whole) s"
}

func percent(_ part: Int, _ whole: Int) -> String {
  "\(Int((Double(part) / Double(whole) * 100).rounded())) %"
}

func pad(_ text: String, _ width: Int, left: Bool = false) -> String {
  let fill = String(repeating: " ", count: max(0, width - text.count))
  return left ? fill + text : text + fill
}
