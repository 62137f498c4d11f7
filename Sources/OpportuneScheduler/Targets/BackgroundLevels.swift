import Synchronization

/// What each level of a ``TargetPolicy`` leaves the background: workers, and with them as large a share of
/// the storage device, where an I/O broker follows. Below one worker the levels go on with less of the
/// device, down to an eighth of it: on few cores there is little else to give.
package struct BackgroundLevels: Sendable, Hashable {
  /// How many workers background has at the highest level; at least 1.
  package let width: Int
  package let movesDevice: Bool

  package init(width: Int, movesDevice: Bool) {
    (self.width, self.movesDevice) = (max(1, width), movesDevice)
  }

  /// How many levels there are below one worker and its share: each halves that, as long as an eighth is
  /// left.
  private var below: Int {
    guard movesDevice, width < DeviceShare.whole else { return 0 }
    return Int.bitWidth - 1 - (DeviceShare.whole / width).leadingZeroBitCount
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
  private let follows = Atomic<Bool>(false)

  init() {}

  /// 1 to 8. A reader that sees an old value acts on it until it looks again.
  package internal(set) var eighths: Int {
    get { value.load(ordering: .relaxed) }  // relaxed: all there is
    set { value.store(newValue, ordering: .relaxed) }
  }

  /// An I/O broker reads this from now on.
  package func follow() { follows.store(true, ordering: .relaxed) }

  /// Whether one does: else it would be moved in vain.
  var isFollowed: Bool { follows.load(ordering: .relaxed) }
}

extension App {
  /// What the targets of the scheduler's apps leave the background of the storage device.
  package var deviceShare: DeviceShare { core.engine.deviceShare }
}
