import Foundation
import OpportuneApps

/// What a fix says of a side of a fence, and what that makes of what was known. Log odds: positive is inside.
enum Evidence {
  /// No fix says more than this, one in 500 million.
  static let limit = 20.0

  /// In deviations: farther from a border than this, a fix says all it can.
  static let clearance = 8.5

  static func logOdds(_ probability: Double) -> Double {
    min(limit, max(-limit, log(probability) - log1p(-probability)))
  }

  /// What a fix says of a fence, and how far it is from its border; `nil` where it says nothing.
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
      // Outside a disc it is less than a half, and not looked at.
      inside =
        signed >= 0
        ? 0
        : signed < -clearance * deviation
          ? 1 : Normal.inDisc(radius: slot.reach / deviation, distance: distance / deviation)
    }
    let odds = of(inside: inside, beyond: signed / deviation, vertical: vertical)
    // A border of altitudes counts where it is the one that the device is at.
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
  /// Inside is believed by its probability. Outside is not believed by the rest of it: about a small fence a
  /// poor fix gives little for inside wherever the device is. It is believed by how ill a fix agrees with
  /// being inside at all.
  static func of(inside: Double, beyond: Double, vertical: (probability: Double, beyond: Double)?) -> Double {
    let probability = inside * (vertical?.probability ?? 1)
    if probability > 0.5 { return logOdds(probability) }
    let farthest = max(beyond, vertical?.beyond ?? -.infinity)
    return farthest > 0 ? logOdds(Normal.below(-farthest)) : 0
  }

  /// What is left of odds when a device had time to move: the chain of two states that it leaves once in
  /// `stay` on average. After a long time nothing is.
  static func faded(_ odds: Double, over seconds: Double, stay: Double) -> Double {
    // 1 - exp(-2t/stay) is twice the probability of having changed sides.
    let changed = -expm1(-2 * seconds / stay) / 2
    if changed >= 0.5 { return 0 }
    let ratio = exp(odds)
    return log((ratio * (1 - changed) + changed) / (ratio * changed + (1 - changed)))
  }

  /// The share of a fix that is new, so long after the one before.
  static func share(after seconds: Double, correlation: Double) -> Double {
    correlation > 0 ? -expm1(-seconds / correlation) : 1
  }

  static func probability(_ odds: Double) -> Double { 1 / (1 + exp(-odds)) }
}
