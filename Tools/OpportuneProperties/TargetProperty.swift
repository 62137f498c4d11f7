import OpportuneBase
import OpportuneFuzz
import OpportuneScheduler

/// Random readings of a target over virtual time, against what ``TargetPolicy`` promises.
struct TargetProperty: DrawnProperty {
  let name = "targets"
  let summary =
    "Background has one worker at least and all at most; it loses some only after requests were late, and gains a "
    + "few at a time; without a target it has all."
  let head = 2
  let grain = 5
  /// The code under test; other code in tests of the judge.
  var look: @Sendable (inout TargetPolicy, [TargetPolicy.Reading], Int, Int, UInt64) -> TargetPolicy.Change? =
    { $0.look($1, running: $2, width: $3, now: $4) }

  func draw(_ generator: inout SplitMix64) -> [UInt8] {
    generator.bytes(head + grain * Int.random(in: 1...200, using: &generator))
  }

  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
    var (head, steps) = parts(of: input)
    let width = 1 + head.below(40)
    let p99 = UInt64(1 + head.below(100)) * 1_000_000
    var policy = TargetPolicy()
    var requests = TargetPolicy.Requests()
    var (now, limit, wasLate): (UInt64, Int, Bool) = (0, width, false)
    for var bytes in steps {
      now += UInt64(bytes.below(250)) * 10_000_000
      let (count, late) = (UInt64(bytes.byte()), bytes.below(4) == 0 ? UInt64(bytes.byte()) : 0)
      requests.answered += count + late
      requests.late += late
      requests.close += late
      if late > 0 { wasLate = true }
      let hasTarget = bytes.byte() != 255
      let running = late % 3 == 1 ? max(0, limit - 1) : limit
      log.note(
        "at \(now / 1_000_000) ms: \(requests.answered) answered, \(requests.late) late, \(running) run")
      let readings = hasTarget ? [TargetPolicy.Reading(app: 1, p99: p99, requests: requests)] : []
      let change = look(&policy, readings, running, width, now)
      if !hasTarget, policy.cap != nil { throw Violation("a cap without a target") }
      if let cap = policy.cap, !(1...width).contains(cap) { throw Violation("\(cap) of \(width) workers") }
      guard let change else {
        if hasTarget, policy.cap ?? width != limit { throw Violation("an untold change from \(limit)") }
        if !hasTarget { limit = width }
        continue
      }
      log.add(": \(change.from) to \(change.to), \(change.reason)")
      guard change.from == limit, change.to == policy.cap ?? width else {
        throw Violation("\(change.from) to \(change.to) is told, where it was \(limit)")
      }
      if change.to < change.from, !wasLate {
        throw Violation("background loses workers, and nothing was late")
      }
      if change.to > change.from, change.reason != .noTarget, change.to - change.from > max(1, width / 8) {
        throw Violation("background gains \(change.to - change.from) of \(width) at once")
      }
      if change.reason == .outOfReach, change.to != change.from {
        throw Violation("out of reach, and changed")
      }
      limit = change.to
      wasLate = false
    }
  }
}
