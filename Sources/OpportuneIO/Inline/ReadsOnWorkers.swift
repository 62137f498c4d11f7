internal import COpportune
import Synchronization

/// The foreground's reads that wait for the device on the workers that run their callers: how many may, and
/// how many do. The I/O scheduler counts them as requests in flight, so that background yields to them as to
/// the others. (Decisions 0021, 0028)
///
/// Any thread.
final class ReadsOnWorkers: Sendable {
  /// How many may wait at the same time; 0 is none. Others go through the reactor.
  let most: Int
  /// The largest of such reads, in bytes: some hundred microseconds of a device of today.
  static let largest = 256 << 10
  /// Larger reads tell the reactor when they end. A smaller one is over in about the time of one access;
  /// background that it held back goes on with the end of its own next request.
  static let small = 64 << 10

  /// The kernel I/O priority of such a read.
  let priority: opp_ring_priority

  private let waiting = Atomic<Int>(0)
  private let holdsBackground = Atomic<Bool>(false)

  init(_ policy: DevicePolicy, _ priorities: IOConfiguration.KernelPriorities) {
    // The adaptive cap has to see the latency of each request, and only the reactor shows it that.
    // A depth of 2 has one place for both: background would wait for such a read with nothing of its own in
    // flight, whose end has the reactor look again.
    if case .adaptive = policy.cap { most = 0 } else { most = policy.depth < 3 ? 0 : policy.depth / 2 }
    priority = KernelOperations.priority(of: .foreground, priorities)
  }

  /// How many wait now.
  var count: Int { waiting.load(ordering: .relaxed) }

  /// Begins one. False where ``most`` wait already.
  func begin() -> Bool {
    // relaxed, all three: a count that orders nothing. The reactor may see it late. It dispatches again at
    // each completion, and while background is held back one is still to come.
    if waiting.wrappingAdd(1, ordering: .relaxed).oldValue < most { return true }
    waiting.wrappingSubtract(1, ordering: .relaxed)
    return false
  }

  /// Ends one of so many bytes. Returns whether the reactor is to look at what waits: background that no
  /// foreground read holds back any more.
  func end(bytes: Int) -> Bool {
    // relaxed, all: hints. A wake-up that is missed costs background one request's time, as after a small
    // read; one too many is a look in vain.
    waiting.wrappingSubtract(1, ordering: .relaxed).newValue == 0 && bytes > Self.small
      && holdsBackground.load(ordering: .relaxed) && holdsBackground.exchange(false, ordering: .relaxed)
  }

  /// The reactor's: whether background waits for these reads.
  func tell(holdsBackground holds: Bool) {
    if holdsBackground.load(ordering: .relaxed) != holds { holdsBackground.store(holds, ordering: .relaxed) }
  }
}
