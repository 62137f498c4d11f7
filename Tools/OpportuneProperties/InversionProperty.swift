import OpportuneBase
import OpportuneFuzz
import OpportuneScheduler

/// Random waits for locks over virtual time, against what ``InversionPolicy`` promises.
struct InversionProperty: Property {
  let name = "inversions"
  let summary =
    "Who holds what the foreground waits for is helped, nobody else, each for no longer than the limit, and each "
    + "help ends once."
  let head = 1
  let grain = 8
  /// The code under test; other code in tests of the judge.
  var look: @Sendable (inout InversionPolicy, [InversionPolicy.Wait], UInt64) -> [InversionPolicy.Action] = {
    $0.look($1, now: $2)
  }

  private typealias Slice = InversionPolicy.Slice

  func draw(_ generator: inout SplitMix64) -> [UInt8] {
    generator.bytes(head + grain * Int.random(in: 1...60, using: &generator))
  }

  private static let priorities = [(WorkerPool.foreground, 0), (.foreground, 1), (.background, 0)].map {
    KernelPriority(
      worker: $0.0, level: $0.0 == .background ? 1 : 50, depth: $0.1, bands: .default, backgroundClass: .idle,
      overlapClass: .nice19, privileges: KernelPrivileges(canRaise: true, canUseRR: true, canSetSlice: true))
  }

  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
    var (head, steps) = parts(of: input)
    let limit = UInt64(1 + head.below(200))
    var policy = InversionPolicy(limit: limit)
    var now: UInt64 = 0
    /// Since when each is helped, and with what priority.
    var helped: [Slice: (since: UInt64, priority: KernelPriority)] = [:]
    /// Those that have had their time, while they are still waited for.
    var spent: Set<Slice> = []
    for var bytes in steps {
      now += UInt64(bytes.below(100))
      let waits = (0..<bytes.below(4)).map { _ in
        let pair = bytes.byte()
        let (waiter, holder) = (Int(pair & 7), Int(pair >> 3 & 7))
        return InversionPolicy.Wait(
          waiter: Self.party(waiter), holder: Self.party(holder), isForeground: waiter % 3 < 2)
      }
      log.note("at \(now): \(waits.map { "\($0.waiter.slice.thread) for \($0.holder.slice.thread)" })")
      let actions = look(&policy, waits, now)
      let waitedFor = Set(waits.map(\.holder.slice))
      spent.formIntersection(waitedFor)
      for action in actions {
        switch action {
        case .leave(let slice):
          guard helped[slice] != nil else { throw Violation("the help of \(slice.thread) ends twice") }
          helped[slice] = nil
          if waitedFor.contains(slice) { spent.insert(slice) }
        case .help(let slice, let priority):
          if let before = helped[slice], !priority.outranks(before.priority) {
            throw Violation("\(slice.thread) is helped twice")
          }
          guard waitedFor.contains(slice) else {
            throw Violation("\(slice.thread) is helped, and nobody waits for it")
          }
          helped[slice] = (helped[slice]?.since ?? now, priority)
        }
      }
      for (slice, help) in helped {
        guard waitedFor.contains(slice) else { throw Violation("\(slice.thread) is helped for nobody") }
        guard now - help.since < limit else { throw Violation("\(slice.thread) is helped for too long") }
      }
      guard policy.isHelping == !helped.isEmpty else { throw Violation("isHelping is \(policy.isHelping)") }
      for wait in waits
      where wait.isForeground && wait.waiter.slice != wait.holder.slice
        && wait.waiter.priority.outranks(wait.holder.priority)
      {
        let holder = wait.holder.slice
        guard helped[holder] != nil || spent.contains(holder) else {
          throw Violation("\(holder.thread) keeps \(wait.waiter.slice.thread) waiting, and is not helped")
        }
      }
    }
  }

  private static func party(_ thread: Int) -> InversionPolicy.Party {
    .init(slice: .init(thread: Int32(thread), job: 1), priority: priorities[thread % 3])
  }
}
