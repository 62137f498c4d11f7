import Synchronization

/// What each level of a ``TargetPolicy`` leaves the background: workers, and with them as large a share of
/// the storage device, where an I/O broker follows. Below one worker the levels go on with less of the
/// device, down to the least that the broker can tell from less: on few cores there is little else to give.
/// Each level so gives more than the one below it: else a trial of more would hold, and say nothing.
package struct BackgroundLevels: Sendable, Hashable {
  /// How many workers background has at the highest level; at least 1.
  package let width: Int
  /// The least share of the device, in eighths, below which less changes nothing; the whole is none.
  package let leastEighths: Int

  package init(width: Int, leastEighths: Int = DeviceShare.whole) {
    self.width = max(1, width)
    self.leastEighths = min(max(1, leastEighths), DeviceShare.whole)
  }

  package var movesDevice: Bool { leastEighths < DeviceShare.whole }

  /// How many levels there are below one worker and its share: each halves that, as long as the least is
  /// left.
  private var below: Int {
    let halvings = DeviceShare.whole / width / leastEighths
    return halvings < 1 ? 0 : Int.bitWidth - 1 - halvings.leadingZeroBitCount
  }

  /// The highest level, where background has all; the lowest is 1.
  package var top: Int { width + below }

  package func workers(at level: Int) -> Int { max(1, min(level, top) - below) }

  /// The share of the storage device, 1 to 8 eighths.
  package func eighths(at level: Int) -> Int {
    let share = DeviceShare.whole * workers(at: level) / width
    return max(1, level > below ? share : share >> (below + 1 - level))
  }

  /// The level of which it is true that so many workers of background are inside jobs, under that limit.
  package func level(running: Int, under limit: Int) -> Int {
    running > workers(at: limit) ? running + below : running == workers(at: limit) ? limit : running
  }
}

/// The share of the storage device that targets of apps leave the background: set by the monitor, read by the
/// I/O brokers that serve apps of the scheduler. Any thread.
package final class DeviceShare: Sendable {
  /// All of the device, in eighths.
  package static let whole = 8

  private let value = Atomic<Int>(DeviceShare.whole)
  private let least = Atomic<Int>(DeviceShare.whole)
  private let hasEnded = Atomic<Bool>(false)

  init() {}

  /// The scheduler has ended, and nobody sets this any more: a broker follows the next one's.
  package var isOver: Bool { hasEnded.load(ordering: .relaxed) }  // relaxed: all there is

  /// The last that the monitor does to it.
  func end() {
    eighths = Self.whole
    hasEnded.store(true, ordering: .relaxed)  // as above
  }

  /// 1 to 8. A reader that sees an old value acts on it until it looks again.
  package internal(set) var eighths: Int {
    get { value.load(ordering: .relaxed) }  // relaxed: all there is
    set { value.store(newValue, ordering: .relaxed) }
  }

  /// An I/O broker reads this from now on, for which fewer eighths than `least` change nothing. Of several
  /// brokers the one that can go lowest counts.
  package func noteReader(least: Int) { self.least.min(least, ordering: .relaxed) }

  /// Fewer eighths than these change nothing: all of them where no broker reads this, or none could act on
  /// less.
  var leastEighths: Int { least.load(ordering: .relaxed) }  // relaxed: as above
}

extension App {
  /// What the targets of the scheduler's apps leave the background of the storage device.
  package var deviceShare: DeviceShare { core.engine.deviceShare }
}
