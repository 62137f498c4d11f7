/// How many requests of each class are served while both classes wait. (R-NET-04, R-NET-05)
///
/// Over any run of requests served while both waited, each class gets its exact share to within one request.
public struct Ratio: Sendable, Hashable, Codable {
  /// Shares; not both 0. Any whole numbers of 0 to 1,000,000.
  public let foreground: Int
  /// Turns of the background.
  public let background: Int

  /// Values that a share may have.
  static let shareRange: ClosedRange<Int> = 0...1_000_000

  /// 100:0: background is served only while no foreground request waits.
  public static let strict = Ratio(unchecked: 100, 0)
  /// Nine foreground requests for each of the background.
  public static let ninetyToTen = Ratio(unchecked: 90, 10)
  /// Four foreground requests for each of the background.
  public static let eightyToTwenty = Ratio(unchecked: 80, 20)
  /// Three foreground requests for each of the background.
  public static let threeToOne = Ratio(unchecked: 75, 25)
  /// One foreground request for each of the background.
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

  /// Whether background may starve behind foreground.
  package var isStrict: Bool { background == 0 }
}

/// Whose turn it is. The turns of a ratio are the steps of a line with its slope (Bresenham), which is what
/// keeps every window, not only the ones from the start, within one request of the exact share.
struct RatioTurn: Sendable {
  private let ratio: Ratio
  /// 0 to the sum of the shares; starts in the middle, so that neither class waits for its whole period at
  /// first.
  private var error: Int

  init(_ ratio: Ratio) {
    self.ratio = ratio
    error = (ratio.foreground + ratio.background) / 2
  }

  /// Who is next. Changes nothing: ``take()`` does.
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
