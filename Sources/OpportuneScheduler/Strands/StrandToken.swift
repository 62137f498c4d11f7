internal import OpportuneBase

/// A token in the place of an app that waits for a strand of another. Keeps that app as long as it is queued
/// there, or waits for the strand's runner to leave.
final class StrandToken: QueuedObject, Linked, @unchecked Sendable {
  let place: AppCore
  private let strand: Strand
  // Guarded by being a member of one stack, or in one thread's hands.
  var below: UInt = 0

  init(_ strand: Strand, in place: AppCore) {
    self.strand = strand
    self.place = place
    super.init(identity: strand.identity, base: strand.base)
  }

  override func run(on worker: Worker) { strand.run(on: worker, for: self) }

  // The token in the strand's own app is abandoned as well.
  override func abandon() {}
}
