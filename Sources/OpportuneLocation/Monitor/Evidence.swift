import Foundation
import OpportuneApps

/// What a fix says of a side of a fence, and what that makes of what was known. Log odds: positive is inside.
enum Evidence {
  /// No fix says more than this, one in 500 million.
  static let limit = 20.0

  static func logOdds(_ probability: Double) -> Double {
    min(limit, max(-limit, log(probability) - log1p(-probability)))
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
