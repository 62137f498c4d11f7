import Foundation

/// Probabilities of the normal distribution that the monitor needs.
enum Normal {
  /// Of a standard normal variable below `z`.
  static func below(_ z: Double) -> Double { 0.5 * erfc(-z / 2.0.squareRoot()) }

  /// Owen's T function: that a standard normal pair has X > h and 0 < Y < aX; odd in `a`, even in `h`.
  ///
  /// T(h, a) = 1/2π ∫₀ᵃ exp(-h²(1+x²)/2) / (1+x²) dx. With a swapped for 1/a beyond 1 the integrand is smooth
  /// on [0, 1], and 16-point Gauss-Legendre is exact to about 1e-12 for h up to 6; beyond, the value is below
  /// 1e-9.
  static func owensT(_ h: Double, _ a: Double) -> Double {
    let h = abs(h)
    if a < 0 { return -owensT(h, -a) }
    if a == 0 || h > 39 { return 0 }
    if a <= 1 { return integrate(h, a) }
    // T(h, a) = ½Φ(h) + ½Φ(ah) - Φ(h)Φ(ah) - T(ah, 1/a), written with upper tails, which keep their digits.
    let (tail, scaledTail) = (below(-h), a.isInfinite ? 0 : below(-a * h))
    let sum = 0.5 * (tail + scaledTail) - tail * scaledTail
    return a.isInfinite ? 0.5 * tail : sum - integrate(a * h, 1 / a)
  }

  private static let nodes: [(x: Double, weight: Double)] = [
    (0.095_012_509_837_637_44, 0.189_450_610_455_068_5), (0.281_603_550_779_258_9, 0.182_603_415_044_923_6),
    (0.458_016_777_657_227_4, 0.169_156_519_395_002_54), (0.617_876_244_402_643_8, 0.149_595_988_816_576_73),
    (0.755_404_408_355_003, 0.124_628_971_255_533_87), (0.865_631_202_387_831_7, 0.095_158_511_682_492_78),
    (0.944_575_023_073_232_6, 0.062_253_523_938_647_89), (0.989_400_934_991_649_9, 0.027_152_459_411_754_095),
  ]

  private static func integrate(_ h: Double, _ a: Double) -> Double {
    let half = a / 2
    var sum = 0.0
    for (node, weight) in nodes {
      for x in [half - half * node, half + half * node] {
        let square = 1 + x * x
        sum += weight * exp(-0.5 * h * h * square) / square
      }
    }
    return sum * half / (2 * .pi)
  }

  /// That a point with two independent normal errors of deviation 1 about a mean lies in a disc: its radius,
  /// and the distance of its centre from the mean, both in deviations.
  ///
  /// The Rice distribution as an integral over the direction: with the distance to the rim on each side of
  /// the mean this is the sum of what ``owensT(_:_:)`` sums for polygons.
  static func inDisc(radius: Double, distance: Double) -> Double {
    // Beyond 8.3 deviations of the rim, doubles say 0 or 1.
    if distance - radius > 8.3 { return 0 }
    if radius - distance > 8.3 { return 1 }
    // A rim so wide that it is straight where it matters.
    if radius > 1e5 { return below(radius - distance) }
    // P = ∫ φ(t + d) · P(|Y| < half chord at t) dt over the chords across the disc, where they matter; with
    // t = r sin θ the half chord is r cos θ, and everything is smooth.
    let low = asin(max(-1, (-distance - 8.5) / radius))
    let high = asin(min(1, (-distance + 8.5) / radius))
    guard high > low else { return 0 }
    var sum = 0.0
    let slices = 4
    let width = (high - low) / Double(slices)
    for slice in 0..<slices {
      let middle = low + (Double(slice) + 0.5) * width
      for (node, weight) in nodes {
        for side in [-0.5, 0.5] {
          let angle = middle + side * node * width
          let halfChord = radius * cos(angle)
          let z = radius * sin(angle) + distance
          sum += weight * exp(-0.5 * z * z) * erf(halfChord / 2.0.squareRoot()) * halfChord
        }
      }
    }
    return min(1, sum * width / 2 / (2 * Double.pi).squareRoot())
  }
}
