import Glibc
import OpportuneBase
import OpportuneHost
import Synchronization

/// When a block device ended nothing that it had to do, though it had something. A hypervisor that holds a
/// machine to a rate does that to it, for a second and more. So may what runs here, with a flush of hundreds
/// of megabytes, and the counters do not tell which it was: figures with and without are told.
///
/// A plain value: clocks and counters in, times out.
struct StandstillFinder: Sendable {
  /// What a healthy device may take for all that it has, as for a flush.
  static let most: Nanoseconds = 50_000_000

  private(set) var found: [Range<Nanoseconds>] = []
  /// The first look at which it had ended as much as by now, and the last.
  private var last: (completed: UInt64, at: Nanoseconds, until: Nanoseconds)?

  /// A look at the device: how much it has ended since the machine's start, and how much it has to do. Who
  /// looks may have been kept from it: only what was seen to stand still counts.
  mutating func look(completed: UInt64, inFlight: UInt64, at now: Nanoseconds) {
    if last?.completed == completed, inFlight > 0 {
      last?.until = now
    } else {
      end(at: now)
      last = (completed, now, now)
    }
  }

  /// It goes on, or nobody looks any more.
  mutating func end(at now: Nanoseconds) {
    if let last, last.until - last.at > Self.most { found.append(last.at..<now) }
    last = nil
  }
}

/// Looks each 5 ms at the device of a folder, from a thread of its own, until it is stopped.
final class DeviceWatch: Sendable {
  private static let interval: Nanoseconds = 5_000_000

  private let isOver = Atomic<Bool>(false)
  private let finder = Mutex(StandstillFinder())
  private let thread: Mutex<SystemThread?> = Mutex(nil)

  /// A folder on no block device, as of a file system in memory, is watched in vain.
  init(folder: String) throws {
    guard let path = Self.counters(of: folder), Self.read(path) != nil else { return }
    let started = try SystemThread.measuring(named: "device") { [self] in
      while !isOver.load(ordering: .relaxed), let (completed, inFlight) = Self.read(path) {
        let now = SystemClock.now()
        finder.withLock { $0.look(completed: completed, inFlight: inFlight, at: now) }
        SystemClock.sleep(until: now + Self.interval)
      }
    }
    thread.withLock { $0 = started.thread }
  }

  /// Ends the watch. Returns when the device stood still.
  func stop() -> [Range<Nanoseconds>] {
    isOver.store(true, ordering: .relaxed)  // nothing else is published by it
    guard let thread = thread.withLock({ $0.take() }) else { return [] }
    thread.join()
    return finder.withLock { finder in
      finder.end(at: SystemClock.now())
      return finder.found
    }
  }

  private static func counters(of folder: String) -> String? {
    var status = stat()
    guard stat(folder, &status) == 0 else { return nil }
    let device = DeviceList.Device(isBlock: true, number: UInt64(status.st_dev))
    return device.minor.map { "/sys/dev/block/\(device.major):\($0)/stat" }
  }

  private static func read(_ path: String) -> (completed: UInt64, inFlight: UInt64)? {
    TextFile.read(path, limit: 512).flatMap(parse)
  }

  /// Reads, writes, discards and flushes that have ended, and what is in flight, from the text of a device's
  /// `stat` (Documentation/block/stat.rst of the kernel); those of an old kernel have fewer fields.
  static func parse(_ text: String) -> (completed: UInt64, inFlight: UInt64)? {
    let fields = text.split { $0 == " " || $0 == "\n" }.map { UInt64($0) }
    guard fields.count >= 11, !fields.contains(nil) else { return nil }
    let ended = [0, 4, 11, 15].compactMap { $0 < fields.count ? fields[$0] : nil }
    return (ended.reduce(0, &+), fields[8] ?? 0)
  }
}
