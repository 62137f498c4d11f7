internal import OpportuneBase

/// A strand's token in the queue of another app, which waits for the strand. It retains that app while it is
/// queued there, or waits for the strand's runner to leave.
final class StrandToken: QueuedObject, Linked, @unchecked Sendable {
  let place: AppCore
  private let strand: Strand
  // Guarded: an entry belongs to one stack, or to one thread.
  var below: UInt = 0

  init(_ strand: Strand, in place: AppCore) {
    self.strand = strand
    self.place = place
    super.init(identity: strand.identity, base: strand.base)
  }

  override func run(on worker: Worker) { strand.run(on: worker, for: self) }

  // Nothing to do: the token in the strand's own app is abandoned as well.
  override func abandon() {}
}
