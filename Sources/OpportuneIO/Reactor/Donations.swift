import OpportuneScheduler
import Synchronization

/// The queued requests that may yet move up, since somebody in the foreground may begin to wait for who has
/// asked for them.
///
/// Who donates posts a message (any thread); the reactor then looks at each such request again. One message
/// stands for all donations since the last look, so there is one look a turn at most. What is at the device
/// stays as it is, and so does a request that has moved up when the wait for it ends.
///
/// No donation is missed:
///  - Who asks publishes the listener with its task, then posts the request, and the reactor looks at the
///    donors as it queues the request.
///  - Who donates publishes the donation, then looks for listeners. If it finds none, the donation came
///    before the listener, and before the reactor's look. (seqCst; see `DonationNode`)
///  - If it finds one, the message comes before the request, whose own look then sees the donation, or after
///    it, and the look at the message does.
final class Donations: DonationListener, @unchecked Sendable {
  // Sendable: `isPosted` is atomic; `mailbox` is set before the reactor's thread starts, and weak references
  // are atomic in the runtime; `requests` belongs to the reactor's thread.
  private let isPosted = Atomic<Bool>(false)
  // Tasks keep their listeners for as long as they live, which may be longer than the reactor. The reactor
  // itself has no weak references, which would make each count of its references slow.
  private nonisolated(unsafe) weak var mailbox: Mailbox?
  /// Queued, and not donated at the last look; in no order.
  private(set) var requests: [Request] = []

  /// Once, before the reactor is used.
  func begin(for mailbox: Mailbox) { self.mailbox = mailbox }

  // MARK: Any thread

  func donationCame() {
    // releasing: the donation comes before, whether the message is posted here or was before: each exchange
    // continues the release sequence. acquiring, in look(): sees all of them.
    guard !isPosted.exchange(true, ordering: .acquiringAndReleasing) else { return }
    mailbox?.post(Control { $0.path.lookAtDonations() })
  }

  // MARK: The reactor

  func add(_ request: Request) {
    guard request.call.standing != nil, !request.isDonated, request.indexInDonations < 0 else { return }
    request.indexInDonations = requests.count
    requests.append(request)
  }

  func remove(_ request: Request) {
    let index = request.indexInDonations
    guard index >= 0 else { return }
    requests[index] = requests[requests.count - 1]
    requests[index].indexInDonations = index
    requests.removeLast()
    request.indexInDonations = -1
  }

  /// Looks at all requests. Returns those that somebody of the foreground waits for now; they are listed no
  /// more.
  func look() -> [Request] {
    // Before the look: a donation that comes meanwhile posts another message.
    _ = isPosted.exchange(false, ordering: .acquiringAndReleasing)
    for request in requests { request.lookAtDonation() }
    let donated = requests.filter(\.isDonated)
    for request in donated { remove(request) }
    return donated
  }
}
