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
  /// The largest of such reads, in bytes: as much as the device moves in about the time of one access.
  static let largest = 64 << 10

  private let waiting = Atomic<Int>(0)
  private let raisesPriority: Bool

  init(_ policy: DevicePolicy, _ priorities: IOConfiguration.KernelPriorities) {
    // The adaptive cap has to see the latency of each request, and only the reactor shows it that.
    if case .adaptive = policy.cap { most = 0 } else { most = policy.depth / 2 }
    raisesPriority = priorities != .none
  }

  /// How many wait now.
  var count: Int { waiting.load(ordering: .relaxed) }

  /// Begins one, unless as many as may are waiting.
  func begin() -> Bool {
    // relaxed, all three: a count that orders nothing. The reactor may see it a moment late; it dispatches
    // again with each completion, of which there is one to come while background is held back by this.
    if waiting.wrappingAdd(1, ordering: .relaxed).oldValue < most { return true }
    end()
    return false
  }

  func end() { waiting.wrappingSubtract(1, ordering: .relaxed) }

  /// Gives the calling thread the I/O priority that the reactor's foreground requests have.
  func raisePriority() { if raisesPriority { opp_ring_raise_thread() } }
}
