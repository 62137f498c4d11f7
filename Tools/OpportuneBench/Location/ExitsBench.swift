import Opportune
import OpportuneBase
import OpportuneLocation

/// Each exit that a phone's system told, against ours on the same fixes.
///
/// The phone's fence is a circle of 100 m about where it rested. Where that was its log does not say: it is
/// taken to be the last accurate fix at rest, a minute or more before the exit, since those just before it
/// may be on the way already.
struct ExitsBench: Sendable {
  enum Verdict: String, Sendable, CaseIterable {
    case told = "told"
    case late = "told a minute or more after the first fix"
    case early = "told before the phone's system told"
    case missed = "missed"
    case phoneWrong = "false alarms of the phone's system"
    case noRest = "not judged: no accurate rest before"
    case noFixes = "not judged: no fix after"
  }

  /// Why a crossing was told late or not at all: what most of the fixes say that came before.
  enum Cause: String, Sendable, CaseIterable {
    case inside = "the fixes are inside"
    case unsure = "the fixes are too poor"
    case outliers = "the fixes are taken for outliers"
    case unknown = "it was never sure to be inside"
    case undecided = "the fixes are too few"
  }

  struct Outcome: Sendable {
    var recorded = 0
    var verdicts: [Verdict: Int] = [:]
    var causes: [Cause: Int] = [:]
    /// Exits of ours from which the device was back at once.
    var wrong = 0
    /// Seconds from the first fix after the phone's exit to ours, where ours came after that.
    var lateness: [Double] = []
    /// Seconds from ours to the phone's, where ours came before.
    var earliness: [Double] = []
  }

  static let radius = 100.0
  /// Metres, 68 %, and m/s: of a fix at rest, at most.
  private static let accurate = 65.0
  private static let resting = 1.0
  private static let settling = Duration.seconds(60)
  private static let watched = Duration.seconds(900)
  /// Before the rest, for the monitor to find out where the device is.
  private static let prelude = Duration.seconds(1800)
  private static let late = 60.0

  static func run(_ logs: [PhoneLog]) throws -> Outcome {
    var outcome = Outcome()
    for log in logs {
      outcome.recorded += log.recorded
      for (number, exit) in log.exits.enumerated() {
        let from = number > 0 ? log.exits[number - 1] : .zero
        let until = min(exit + watched, number + 1 < log.exits.count ? log.exits[number + 1] : .distantFuture)
        try judge(exit, log.fixes.filter { $0.time >= from && $0.time < until }, &outcome)
      }
    }
    outcome.lateness.sort()
    outcome.earliness.sort()
    return outcome
  }

  /// - Parameter fixes: from the exit before to the end of what is looked at.
  private static func judge(_ exit: Moment, _ fixes: [Fix], _ outcome: inout Outcome) throws {
    func conclude(_ verdict: Verdict) { outcome.verdicts[verdict, default: 0] += 1 }
    let rest = fixes.last {
      $0.time + settling <= exit && $0.accuracy.radius(confidence: 0.68) <= accurate + 1e-6
        && ($0.speed ?? 0) <= resting
    }
    guard let rest else { return conclude(.noRest) }
    let after = fixes.filter { $0.time >= exit }
    guard let first = after.first else { return conclude(.noFixes) }
    let outside = after.map { side(of: $0, about: rest.position) == .outside }
    // One alone may be an outlier, unless there is no other.
    let hasLeft = outside == [true] || zip(outside, outside.dropFirst()).contains { $0 && $1 }
    guard hasLeft else { return conclude(.phoneWrong) }

    var monitor = try RegionMonitor()
    let fence = try monitor.add(Fence(.circle(rest.position, radius: radius)))
    var wasInside = false
    var seen: [Cause: Int] = [:]
    for (index, fix) in fixes.enumerated() where fix.time + prelude >= rest.time {
      let exits = monitor.update(fix).contains { $0.kind == .exit }
      wasInside = wasInside || monitor.state(of: fence) == .inside
      if exits, fix.time > rest.time {
        // Back at once: it had not left.
        if index + 1 < fixes.count, side(of: fixes[index + 1], about: rest.position) == .inside {
          outcome.wrong += 1
          continue
        }
        guard fix.time >= exit else {
          outcome.earliness.append(fix.time.duration(to: exit).inSeconds)
          return conclude(.early)
        }
        let lateness = first.time.duration(to: fix.time).inSeconds
        outcome.lateness.append(lateness)
        guard lateness >= late else { return conclude(.told) }
        outcome.causes[mostly(seen), default: 0] += 1
        return conclude(.late)
      }
      if fix.time >= exit { seen[cause(fix, monitor.lastVerdict, rest.position), default: 0] += 1 }
    }
    outcome.causes[wasInside ? mostly(seen) : .unknown, default: 0] += 1
    conclude(.missed)
  }

  private enum Side { case inside, outside, unsure }

  /// By the radius that the phone states.
  private static func side(of fix: Fix, about centre: Coordinate) -> Side {
    let distance = Ellipsoid.distance(centre, fix.position)
    let error = fix.accuracy.radius(confidence: 0.68)
    return distance - error > radius ? .outside : distance + error < radius ? .inside : .unsure
  }

  private static func cause(_ fix: Fix, _ verdict: RegionMonitor.Verdict?, _ centre: Coordinate) -> Cause {
    if verdict == .outlier { return .outliers }
    return switch side(of: fix, about: centre) {
    case .inside: .inside
    case .unsure: .unsure
    case .outside: .undecided
    }
  }

  private static func mostly(_ causes: [Cause: Int]) -> Cause {
    Cause.allCases.max { causes[$0, default: 0] < causes[$1, default: 0] } ?? .undecided
  }
}
