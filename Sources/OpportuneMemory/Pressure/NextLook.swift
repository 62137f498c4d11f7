internal import OpportuneBase

/// When the monitor looks again: a pure function of its last look. (R-MEM-01)
///
/// A budget's use changes in two ways. The broker hands out memory, which wakes the monitor in time. And
/// lazily released memory counts again without notice when its app returns.
///
/// The machine's memory is also used by other programs, and by apps that write to memory which they got
/// before. No event tells of that until a task stalls. So the monitor looks after a time in proportion to the
/// distance to the next point: one second for each 60th of all memory that is left. A look is a wake-up and
/// takes 70 to 250 µs. If memory fills faster than that, the monitor notices after that time, or when the
/// first task stalls and the kernel's alarm goes off.
struct NextLook: Equatable {
  /// The time until the look; -1: not before the monitor is woken.
  let milliseconds: Int32
  /// Bytes that the broker may hand out until then.
  let bytes: UInt64

  /// - Parameter readings: of all limits, since any may be reached next: that of a small cgroup before that
  ///   of a large machine.
  init(
    _ gauge: PressureGauge, _ readings: [MemoryReading], _ ledger: MemoryLedger, ofMachine: Bool,
    hasAlarm: Bool
  ) {
    guard !readings.isEmpty else {
      (milliseconds, bytes) = (1000, .max)
      return
    }
    var (seconds, fewest) = (60.0, UInt64.max)
    var mayReturn = false
    for reading in readings {
      // Memory that was handed out may still be written to.
      let inUse = max(reading.inUse, ledger.inUse)
      let point = (gauge.level == .normal ? gauge.warning : gauge.critical).bytes(of: reading.capacity)
      let withLazy = ofMachine ? inUse : inUse.saturatingAdd(ledger.lazy)
      let left = point - min(withLazy < point ? withLazy : inUse, point)
      mayReturn = mayReturn || withLazy >= point
      // Other programs use the machine's memory as well, hence half. The minimum keeps each allocation from
      // waking the monitor.
      fewest = min(fewest, max(ofMachine ? left / 2 : left, reading.capacity / 256, 1))
      seconds = min(seconds, 60 * Double(left) / Double(max(reading.capacity, 1)))
    }
    bytes = fewest
    if gauge.level == .normal, !ofMachine {
      milliseconds = mayReturn ? 1000 : -1
    } else if gauge.level == .normal, hasAlarm {
      milliseconds = Int32(max(1, seconds) * 1000)
    } else {
      milliseconds = 1000
    }
  }
}
