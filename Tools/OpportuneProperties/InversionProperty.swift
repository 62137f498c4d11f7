import OpportuneBase
import OpportuneFuzz
import OpportuneScheduler

/// Random waits for locks over virtual time, against what ``InversionPolicy`` promises: of fresh, demoted and
/// sunk foreground work and of the background; and who leaves the CPU of a holder that cannot be raised.
struct InversionProperty: DrawnProperty {
  let name = "inversions"
  let summary =
    "Who holds what the foreground waits for is helped, nobody else, each for no longer than the limit, and each "
    + "help ends once; only what stands higher and is no short job leaves its CPU for it, and no waiter."
  let head = 1
  let grain = 8
  /// The code under test; other code in tests of the judge.
  var look: @Sendable (inout InversionPolicy, [InversionPolicy.Wait], UInt64) -> [InversionPolicy.Action] = {
    $0.look($1, now: $2)
  }

  /// The same of who has to make room.
  var move: @Sendable (Neighbour, KernelPriority, Set<InversionPolicy.Slice>) -> InversionPolicy.Move = {
    InversionPolicy.move($0, for: $1, waiters: $2)
  }

  typealias Neighbour = InversionPolicy.Neighbour
  private typealias Slice = InversionPolicy.Slice

  func draw(_ generator: inout SplitMix64) -> [UInt8] {
    generator.bytes(head + grain * Int.random(in: 1...60, using: &generator))
  }

  /// From the highest to the lowest: fresh, demoted and sunk foreground work, and the background.
  private static let standings = 4
  private static let priorities: [KernelPriority] = {
    // One level is shared; what sinks there stands beside the background.
    guard let bands = try? Bands.overlapping(by: 1) else { return [] }
    let bottom = bands.foreground.lowerBound
    let places: [(WorkerPool, Level, Int)] = [
      (.foreground, bands.foreground.upperBound, 0), (.foreground, bands.foreground.upperBound, 1),
      (.background, bottom, 20), (.background, bands.background.lowerBound, 0),
    ]
    return places.map { worker, level, depth in
      KernelPriority(
        worker: worker, level: level, depth: depth, bands: bands, backgroundClass: .idle,
        overlapClass: .nice19, privileges: KernelPrivileges(canRaise: true, canUseRR: true, canSetSlice: true)
      )
    }
  }()

  private static func standing(_ thread: Int) -> Int { thread % standings }

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
          waiter: Self.party(waiter), holder: Self.party(holder), isForeground: Self.standing(waiter) < 3)
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
      try checkRoom(
        thread: bytes.below(8), holder: bytes.below(8), age: UInt64(bytes.below(256)) * 4000, waits)
    }
  }

  /// Whether a job that is on the CPU of a holder makes room as it should.
  private func checkRoom(
    thread: Int, holder: Int, age: UInt64, _ waits: [InversionPolicy.Wait]
  ) throws(Violation) {
    let (standing, lower) = (Self.standing(thread), Self.standing(holder))
    let waiters = Set(waits.map(\.waiter.slice))
    let neighbour = Neighbour(party: Self.party(thread), isDemoted: standing > 0, age: age)
    let (party, move) = (neighbour.party, move(neighbour, Self.priorities[lower], waiters))
    let mustStay = standing >= lower || waiters.contains(party.slice)
    if mustStay, move != .no { throw Violation("\(thread) makes room, and is not to") }
    if mustStay { return }
    if standing > 0, move != .orLower { throw Violation("\(thread), demoted, stays: \(move)") }
    if standing == 0, move == .orLower { throw Violation("\(thread) is fresh, and lowered") }
    let isLong = age >= 200_000
    if standing == 0, isLong != (move == .away) {
      throw Violation("\(thread) is fresh, of age \(age): \(move)")
    }
  }

  private static func party(_ thread: Int) -> InversionPolicy.Party {
    .init(slice: .init(thread: Int32(thread), job: 1), priority: priorities[standing(thread)])
  }
}
