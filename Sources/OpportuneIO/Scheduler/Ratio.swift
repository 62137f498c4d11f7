/// The ratio of requests served by class while both classes wait. (R-NET-04, R-NET-05)
///
/// Over any sequence of requests that were served while both classes waited, each class gets its exact share,
/// to within one request.
public struct Ratio: Sendable, Hashable, Codable {
  /// The foreground's share. Both shares are whole numbers of 0 to 1,000,000, and not both 0.
  public let foreground: Int
  /// The background's share.
  public let background: Int

  /// The accepted values of a share.
  static let shareRange: ClosedRange<Int> = 0...1_000_000

  /// 100:0: background is served only while no foreground request waits.
  public static let strict = Ratio(unchecked: 100, 0)
  /// 90:10, nine foreground requests for each background request.
  public static let ninetyToTen = Ratio(unchecked: 90, 10)
  /// 80:20, four foreground requests for each background request.
  public static let eightyToTwenty = Ratio(unchecked: 80, 20)
  /// 50:50, one foreground request for each background request.
  public static let even = Ratio(unchecked: 50, 50)

  /// - Throws: ``IOError`` with code `configuration` where a share is not 0 to 1,000,000, or both are 0.
  public init(foreground: Int, background: Int) throws(IOError) {
    guard Self.shareRange.contains(foreground), Self.shareRange.contains(background),
      foreground + background > 0
    else {
      throw IOError(
        .configuration, "ratio \(foreground):\(background): each share is 0 to 1,000,000 and not both are 0")
    }
    self.init(unchecked: foreground, background)
  }

  private init(unchecked foreground: Int, _ background: Int) {
    self.foreground = foreground
    self.background = background
  }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    try self.init(
      foreground: container.decode(Int.self, forKey: .foreground),
      background: container.decode(Int.self, forKey: .background))
  }

  /// Whether foreground requests may starve background.
  package var isStrict: Bool { background == 0 }
}

/// Decides whose turn it is. The turns of a ratio are the steps of a line with its slope (Bresenham). So
/// every window of turns, not only one from the start, is within one request of the exact share.
struct RatioTurn: Sendable {
  private let ratio: Ratio
  /// 0 to the sum of the shares. It starts in the middle, so that neither class waits for its whole period at
  /// first.
  private var error: Int

  init(_ ratio: Ratio) {
    self.ratio = ratio
    error = (ratio.foreground + ratio.background) / 2
  }

  /// The class whose turn it is. Changes nothing; ``take()`` does.
  var next: IOClass {
    error + ratio.background >= ratio.foreground + ratio.background && ratio.background > 0
      ? .background : .foreground
  }

  /// Counts the turn of ``next`` as taken.
  mutating func take() {
    error += ratio.background
    if error >= ratio.foreground + ratio.background { error -= ratio.foreground + ratio.background }
  }
}
