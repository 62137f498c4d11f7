import Opportune
import OpportuneLocation
import OpportuneTraces

/// Crossings told from a receiver's fixes against those of a better receiver's positions on the same way.
struct ReferenceBench: Sendable {
  struct Outcome: Sendable {
    /// Crossings of the true way.
    var crossings = 0
    var told = 0
    /// True ones not told, and those of them whose stay, or absence, was deeper than ``grazing``.
    var missed = 0
    var missedDeep = 0
    /// Told ones that did not happen.
    var wrong = 0
    /// Seconds from a true crossing to its being told; sorted.
    var delays: [Double] = []
    /// Metres from each fix to where the device was; sorted.
    var errors: [Double] = []
    /// Of those, the share within the radius that 68 % should be within.
    var within68 = 0.0
  }

  /// Metres from the border.
  static let grazing = 10.0
  /// Seconds that a crossing may be told after it happened, or before, and still be that.
  private static let window = -5.0...60

  private struct Passage {
    var fence: Int
    var kind: Crossing.Kind
    var at: Double
    /// Metres to the border that the stay which began then reached at most.
    var depth: Double
  }

  /// - Throws: ``BenchError`` where both were not recorded at the same time.
  static func run(_ track: LocationTrace, reference: LocationTrace, among fences: [NamedRegion]) throws
    -> Outcome
  {
    // On the track's clock, as far as both go. Without a date, its times count from 1970: then it is the
    // track's day.
    let apart = reference.start - track.start
    let offset = reference.start < 86_400 ? apart.remainder(dividingBy: 86_400) : apart
    guard let end = track.fixes.last?.time.seconds else { return Outcome() }
    let truth = reference.fixes.map { (at: $0.time.seconds + offset, place: $0.position) }
      .filter { $0.at >= 0 && $0.at <= end }
    guard truth.count > 1 else {
      throw BenchError.invalid(
        "--reference", "\(reference.fixes.count) positions", expected: "those of the track's time")
    }
    var outcome = Outcome()
    var expected = passages(truth, fences)
    outcome.crossings = expected.count
    errors(track, truth, &outcome)
    for (fence, crossing) in try crossings(track, fences) {
      outcome.told += 1
      let match = expected.firstIndex {
        $0.fence == fence && $0.kind == crossing.kind && window.contains(crossing.at.seconds - $0.at)
      }
      if let match {
        outcome.delays.append(crossing.at.seconds - expected.remove(at: match).at)
      } else {
        outcome.wrong += 1
      }
    }
    // What happens at the very end has no time to be told.
    let left = expected.filter { $0.at + 10 < end }
    outcome.missed = left.count
    outcome.missedDeep = left.count { $0.depth > grazing }
    outcome.delays.sort()
    return outcome
  }

  private static func passages(
    _ truth: [(at: Double, place: Coordinate)], _ fences: [NamedRegion]
  ) -> [Passage] {
    var result: [Passage] = []
    for (number, fence) in fences.enumerated() {
      var wasInside: Bool?
      for (at, place) in truth {
        let isInside = fence.region.contains(place)
        let depth = fence.region.borderDistance(from: place)
        if let before = wasInside, before != isInside {
          result.append(Passage(fence: number, kind: isInside ? .enter : .exit, at: at, depth: depth))
        } else if let last = result.indices.last, result[last].fence == number {
          result[last].depth = max(result[last].depth, depth)
        }
        wasInside = isInside
      }
    }
    return result.sorted { $0.at < $1.at }
  }

  private static func crossings(
    _ track: LocationTrace, _ fences: [NamedRegion]
  ) throws -> [(fence: Int, crossing: Crossing)] {
    var monitor = try RegionMonitor()
    var numbers: [FenceID: Int] = [:]
    for (number, fence) in fences.enumerated() { numbers[try monitor.add(Fence(fence.region))] = number }
    return track.fixes.flatMap { fix in
      monitor.update(fix).compactMap { crossing in numbers[crossing.fence].map { ($0, crossing) } }
    }
  }

  private static func errors(
    _ track: LocationTrace, _ truth: [(at: Double, place: Coordinate)], _ outcome: inout Outcome
  ) {
    var next = 0
    var within = 0
    for fix in track.fixes {
      while next < truth.count, truth[next].at < fix.time.seconds - 0.01 { next += 1 }
      guard next < truth.count, abs(truth[next].at - fix.time.seconds) <= 0.01 else { continue }
      let error = Ellipsoid.distance(truth[next].place, fix.position)
      outcome.errors.append(error)
      if error <= fix.accuracy.radius(confidence: 0.68) { within += 1 }
    }
    outcome.within68 = Double(within) / Double(max(1, outcome.errors.count))
    outcome.errors.sort()
  }
}
