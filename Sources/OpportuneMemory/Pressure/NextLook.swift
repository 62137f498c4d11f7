internal import OpportuneBase

/// When the monitor looks again: a pure function of what it has just seen. (R-MEM-01)
///
/// A budget changes by what the broker hands out, which rings in time, and by lazily given memory, which
/// counts again without a word as its app returns. The machine's memory is also taken by programs that
/// do not ask, and by apps that write to what they were given before; neither the kernel nor anybody else
/// tells when it fills without stalling anyone. So the further its next point is, the later it is looked at:
/// a second later for each 60th of all memory that is left until then, a look being a wake-up and 70 to 250
/// µs. Who fills memory faster than that goes unnoticed for those seconds, or until the first task stalls for
/// memory, of which the kernel's alarm tells.
struct NextLook: Equatable {
  /// -1: not before it is rung.
  let milliseconds: Int32
  /// Bytes that the broker may hand out until then.
  let bytes: UInt64

  /// - Parameter readings: of each limit, of which any may be reached next: a small group's sooner than a
  ///   large machine's.
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
      // What was handed out may yet be written to.
      let inUse = max(reading.inUse, ledger.inUse)
      let point = (gauge.level == .normal ? gauge.warning : gauge.critical).bytes(of: reading.capacity)
      let withLazy = ofMachine ? inUse : inUse.saturatingAdd(ledger.lazy)
      let left = point - min(withLazy < point ? withLazy : inUse, point)
      mayReturn = mayReturn || withLazy >= point
      // Others fill the machine's as well. Never so near that each allocation rings.
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
