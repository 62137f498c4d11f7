import Foundation
import OpportuneApps

/// The evidence of a fix for a side of a fence, and how it changes what was known. In log odds: positive is
/// inside.
enum Evidence {
  /// The evidence of one fix is limited to this: odds of 500 million to one.
  static let limit = 20.0

  /// In standard deviations: the evidence of a fix that is farther from a border does not grow any more.
  static let clearance = 8.5

  static func logOdds(_ probability: Double) -> Double {
    min(limit, max(-limit, log(probability) - log1p(-probability)))
  }

  /// The evidence of a fix for a fence, and the distance to its border; `nil` without evidence.
  static func of(_ fix: Fix, at point: Point3, about slot: FenceSlot) -> (odds: Double, border: Double)? {
    let deviation = fix.accuracy.standardDeviation
    var vertical: (probability: Double, beyond: Double)?
    if let region = slot.detail?.fence.region, let range = region.altitude {
      guard let altitude = fix.altitude, let probability = region.vertical(fix) else { return nil }
      let outside = max(range.lowerBound - altitude.metres, altitude.metres - range.upperBound)
      vertical = (probability, outside / altitude.standardDeviation)
    }
    let inside: Double
    let signed: Double
    if let detail = slot.detail, case .polygons(let polygons) = detail.fence.region.shape {
      let found = polygons.probability(about: fix.position, deviation: deviation)
      inside = found.inside
      signed = found.relation.isInside ? -found.relation.distance : found.relation.distance
    } else {
      let distance = slot.distanceToCentre(from: fix, point)
      signed = distance - slot.reach
      // Outside a disc the probability is below one half, and is not used.
      inside =
        signed >= 0
        ? 0
        : signed < -clearance * deviation
          ? 1 : Normal.inDisc(radius: slot.reach / deviation, distance: distance / deviation)
    }
    let odds = of(inside: inside, beyond: signed / deviation, vertical: vertical)
    // The border in altitude counts where the device is within or near the area on the ground.
    if let vertical, signed < clearance * deviation {
      return (odds, min(abs(signed), abs(vertical.beyond) * deviation))
    }
    return (odds, abs(signed))
  }

  /// - Parameters:
  ///   - inside: the probability of being inside, on the ground.
  ///   - beyond: how far outside the border the fix is, in deviations; negative inside.
  ///   - vertical: the probability of being within the altitudes, and how far the fix is outside them, in
  ///     deviations.
  ///
  /// The evidence for inside is its probability. The evidence for outside is not the complement: a poor fix
  /// near a small fence gives a low probability of inside wherever the device is. It is how improbable the
  /// fix would be for a device inside.
  static func of(inside: Double, beyond: Double, vertical: (probability: Double, beyond: Double)?) -> Double {
    let probability = inside * (vertical?.probability ?? 1)
    if probability > 0.5 { return logOdds(probability) }
    let farthest = max(beyond, vertical?.beyond ?? -.infinity)
    return farthest > 0 ? logOdds(Normal.below(-farthest)) : 0
  }

  /// The odds after a device had time to move, by a Markov chain of two states, each of which it leaves once
  /// in `stay` on average. After a long time they are even.
  static func faded(_ odds: Double, over seconds: Double, stay: Double) -> Double {
    // 1 - exp(-2t/stay) is twice the probability of having changed sides.
    let changed = -expm1(-2 * seconds / stay) / 2
    if changed >= 0.5 { return 0 }
    let ratio = exp(odds)
    return log((ratio * (1 - changed) + changed) / (ratio * changed + (1 - changed)))
  }

  /// The share of a fix's evidence that is new, so many seconds after the last fix.
  static func share(after seconds: Double, correlation: Double) -> Double {
    correlation > 0 ? -expm1(-seconds / correlation) : 1
  }

  static func probability(_ odds: Double) -> Double { 1 / (1 + exp(-odds)) }
}
