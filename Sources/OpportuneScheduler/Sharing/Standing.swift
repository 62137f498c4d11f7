internal import COpportune
internal import OpportuneBase

/// Where the calling task stands: in the band of its app, or higher, since somebody waits for it. The layers
/// above ask, so that what a raised task asks of them goes as its jobs do.
///
/// It is a look at those who wait now, as often as it is asked: at the app whose slice the caller runs in, at
/// the donors of its task and of the critical section that it is in, and at the strand whose turn it is.
package struct Standing: Sendable {
  private let app: AppCore
  /// The app of the slice, or of the task, where that is another one: it waits for what the caller does.
  private let runsIn: AppCore?
  private let tree: TaskTree?
  private let section: LockSection?
  private let strand: Strand?

  /// Where the caller stands that does work of `app`. nil where nobody can raise it, as a thread without a
  /// task.
  package init?(ofCallerFor app: App) {
    let core = app.core
    let worker = Worker.current(of: core.engine)
    let (tree, plain) = TaskTree.ofCurrentTask(of: core.engine)
    let others = [worker?.app, tree?.app, plain].compactMap { $0 }.filter { $0 !== core }
    self.app = core
    runsIn = others.max { $0.band < $1.band }
    self.tree = tree
    section = LockSection.current
    strand = worker?.strand
    if runsIn == nil, tree == nil, section == nil, strand == nil { return nil }
  }

  /// The highest band of those who wait, where that is above the app's own; else nil. Those whose app is
  /// suspended do not count.
  ///
  /// Any thread. Where nobody waits it is a load for each of task, section and strand.
  package var donatedBand: Band? {
    var highest = app.band
    func consider(_ donor: AppCore) {
      let state = donor.state
      if !state.suspended, let band = Band(rawValue: state.band), band > highest { highest = band }
    }
    if let runsIn { consider(runsIn) }
    tree?.forEachDonor(consider)
    section?.forEachDonor(consider)
    if let band = strand?.donatedBand, band > highest { highest = band }
    return highest > app.band ? highest : nil
  }

  /// From now on the listener is told when somebody begins to wait for the caller. It is told at least once
  /// of each donation that ``donatedBand`` did not show after this call; also of some that raise nothing.
  package func tell(_ listener: some DonationListener) {
    var next = tree
    while let tree = next {
      tree.listeners.add(listener)
      next = tree.outer
    }
    section?.listeners.add(listener)
    strand?.listeners.add(listener)
  }
}

/// Who is told that somebody has begun to wait for a task that has asked something of it.
package protocol DonationListener: AnyObject, Sendable {
  /// Called on the thread that donates, which may be the foreground's: must not block.
  func donationCame()
}

/// A listener of one task, section or strand; one for each broker that it has asked for something.
final class DonationNode: Linked, Sendable {
  let listener: any DonationListener
  // Set before it is published.
  nonisolated(unsafe) var below: UInt = 0
  init(_ listener: any DonationListener) { self.listener = listener }
}

/// seqCst, in both, as each push and walk of such a stack is. Who donates publishes the donation, then looks
/// for listeners; who asks publishes the listener, then has the donations looked at. One of the two sees the
/// other.
extension LinkedStack where Member == DonationNode {
  /// Once for each listener; twice where two threads add it at the same time.
  func add(_ listener: some DonationListener) {
    if first(where: { $0.listener === listener }) == nil { push(DonationNode(listener)) }
  }

  /// Called after the donation was published, by a seqCst operation.
  func tell() { visit { $0.listener.donationCame() } }
}
