import Foundation
import OpportuneApps
import OpportuneBase
import OpportuneLocation

/// A recorded way through fences, in virtual time, as an app that sleeps sees it: it is woken for crossings.
package enum LocationReplay {
  package struct Options: Sendable {
    package var policy = LocationPolicy.standard
    /// Every fix is used, instead of those that the sampler asks for.
    package var isContinuous = false

    package init() {}
  }

  package struct Report: Sendable {
    package struct Crossing: Sendable, Hashable {
      package let fence: String
      package let kind: OpportuneLocation.Crossing.Kind
      /// Seconds from the first fix.
      package let at: Double
      package let confidence: Double
      /// Where the device was seen then, or last; `nil` if it was not yet.
      let place: Coordinate?
    }

    package let fixes: Int
    /// Lines or points of the recording that hold no usable fix, by reason.
    package let skipped: [String: Int]
    /// Those that came while a source ran.
    package internal(set) var used: [Fix] = []
    package internal(set) var crossings: [Crossing] = []
    /// How often a sleeping app was woken.
    package internal(set) var wakeups = 0
    package internal(set) var prompts = 0
    /// Those among them that no device can have had.
    package internal(set) var outliers: [Fix] = []
    /// Seconds that each source ran, and what it took by the table, in millijoules.
    package internal(set) var costs: [SourceKind: SourceBroker.Cost] = [:]

    /// As one object, without places. What the recording has that is no usable fix is `left_out`, by reason.
    package func json() -> String {
      let list = crossings.map {
        "{\"fence\":\(GeoJSON.quoted($0.fence)),\"kind\":\"\($0.kind.rawValue)\",\"at\":\($0.at),\"confidence\":\($0.confidence)}"
      }
      let leftOut = skipped.sorted { $0.key < $1.key }.map { "\(GeoJSON.quoted($0.key)):\($0.value)" }
      return "{\"fixes\":\(fixes),\"fixes_used\":\(used.count),\"outliers\":\(outliers.count),"
        + "\"left_out\":{\(leftOut.joined(separator: ","))},\"crossings\":[\(list.joined(separator: ","))],"
        + "\"wakeups\":\(wakeups),\"prompts\":\(prompts)}\n"
    }

    package func text() -> String {
      let rows = crossings.map { crossing in
        let at = String(format: "%10.1f s", crossing.at)
        return
          "\(at)  \(crossing.kind.rawValue)  \(crossing.fence)  (\(String(format: "%.4f", crossing.confidence)))"
      }
      return (rows + summary).asLines
    }

    /// What the text and the page say beside the crossings, a line each.
    var summary: [String] {
      func counted(_ count: Int, _ one: String, _ several: String? = nil) -> String {
        "\(count) \(count == 1 ? one : several ?? one + "s")"
      }
      var lines = [
        "\(used.count) of \(counted(fixes, "fix", "fixes")) used, \(counted(outliers.count, "outlier")), "
          + counted(crossings.count, "crossing"),
        "\(counted(wakeups, "wake-up")), \(counted(prompts, "prompt"))",
      ]
      if outliers.count > 3, 4 * outliers.count >= used.count {
        lines.append(
          "so many outliers are as of several devices read as one: a column may tell them apart (--device)")
      }
      if !skipped.isEmpty {
        let reasons = skipped.sorted { $0.key < $1.key }.map { "\($0.value) (\($0.key))" }
        lines.append("left out of the recording: \(reasons.joined(separator: ", "))")
      }
      for (kind, cost) in costs.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
        lines.append("\(kind.rawValue): \(Int(cost.seconds)) s, \(Int(cost.millijoules)) mJ by the table")
      }
      return lines
    }
  }

  /// - Parameter progress: told how many fixes of how many have been replayed, after each; on the calling
  ///   thread.
  /// - Throws: ``LocationSystemError``, ``LocationError`` for a policy out of its ranges.
  package static func run(
    _ trace: LocationTrace, fences: [NamedRegion], options: Options = Options(),
    progress: (_ replayed: Int, _ of: Int) -> Void = { _, _ in }
  ) throws -> Report {
    var system = try LocationSystem(policy: options.policy)
    let type = AuthorizationType.always
    let app = AppID(0)
    system.register(app, Manifest(identifier: "replay", usageDescriptions: [type.usageKey: "Replay"]))
    var report = Report(fixes: trace.fixes.count, skipped: trace.skipped)
    var names: [RequestID: String] = [:]
    func take(_ effects: [LocationEffect], seen: Fix?) {
      for effect in effects {
        switch effect {
        case .app(_, .locationEvent): report.wakeups += 1
        case .ask: report.prompts += 1
        case .deliver(_, .crossing(let request, let crossing)):
          report.crossings.append(
            Report.Crossing(
              fence: names[request] ?? "", kind: crossing.kind, at: crossing.at.seconds,
              confidence: crossing.confidence, place: (seen ?? report.used.last)?.position))
        default: continue
        }
      }
    }
    func post(_ event: LocationEvent, at moment: Moment, seen: Fix? = nil) throws {
      take(try system.handle(event, at: moment), seen: seen)
    }
    let asked = try system.handle(.app(app, .requestAuthorization(type)), at: .zero)
    take(asked, seen: nil)
    for case .ask(let prompt, _, _) in asked { try post(.answer(prompt, .allow), at: .zero) }
    let requests = fences.map { LocationRequest.region(Fence($0.region, dwell: $0.dwell), accuracy: 20) }
    names.reserveCapacity(fences.count)
    for effect in try system.handle(.app(app, .startAll(requests)), at: .zero) {
      if case .started(_, let request) = effect { names[request] = fences[names.count].name }
    }
    for (number, fix) in trace.fixes.enumerated() {
      defer { progress(number + 1, trace.fixes.count) }
      while let due = system.nextDeadline, due < fix.time { take(try system.advance(to: due), seen: nil) }
      take(try system.advance(to: fix.time), seen: nil)
      guard let running = system.broker.running ?? (options.isContinuous ? fix.source : nil) else { continue }
      let seen = options.isContinuous ? fix : try fix.seen(by: running, options.policy.sources)
      report.used.append(seen)
      try post(.fix(seen), at: fix.time, seen: seen)
      if system.monitor.lastVerdict == .outlier { report.outliers.append(seen) }
    }
    report.costs = system.broker.costs[app] ?? [:]
    return report
  }
}

extension Fix {
  /// As a source would have it that is coarser than what it was recorded with: the place, and how far that
  /// source is off as a rule. What a recording has no better of stays as it is.
  func seen(by kind: SourceKind, _ table: SourceTable) throws(LocationError) -> Fix {
    guard kind != source, let radius = table[kind]?.typicalRadius else { return self }
    var seen = self
    seen.source = kind
    let usual = try Accuracy.radius(radius)
    if usual.standardDeviation > accuracy.standardDeviation { seen.accuracy = usual }
    return seen
  }
}
