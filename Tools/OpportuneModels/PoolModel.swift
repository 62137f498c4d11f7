import OpportuneBase
import OpportuneScheduler

/// The pools of the foreground and of the background in virtual time: their jobs, their workers by the rules
/// of the C core, a kernel that shares CPUs fairly and gives the background what the foreground leaves, and a
/// monitor that carries out what ``PoolPolicy`` says. It judges each step, and how long jobs wait; see
/// ``ModelledPool``.
package struct PoolModel {
  /// What a job does: it runs, then blocks, and so on in turn; nanoseconds.
  package struct Program: Sendable {
    package var arrival: UInt64
    package var parts: [UInt64]
    /// 1: of what was lowered once, or is held back for its origin. 2: of a known hog.
    package var depth: Int
    package var origin: Int
    package var pool: WorkerPool
    /// What it waits for between its parts.
    package var wait = PoolPolicy.Blocking.blocked
    /// It is held back for its origin, and may be short.
    package var mayBeShort = false
    /// It is one of the foreground that has sunk into the background's pool.
    package var hasSunk = false
    /// How long after its begin its app comes to the other band, and back again; and somebody of the
    /// foreground begins to wait for it. nil: never.
    package var movesAfter: UInt64?
    package var returnsAfter: UInt64?
    package var awaitedAfter: UInt64?
    var changesBand: Bool { movesAfter != nil || awaitedAfter != nil }
    /// As many come at once.
    package var copies = 1

    /// - Parameters:
    ///   - arrival: nanoseconds after the begin.
    ///   - parts: at least one.
    package init(
      arrival: UInt64, parts: [UInt64], depth: Int = 0, origin: Int = 0, pool: WorkerPool = .foreground
    ) {
      (self.arrival, self.parts, self.depth) = (arrival, parts, depth)
      (self.origin, self.pool) = (origin, pool)
    }
  }

  package struct Violation: Error {
    package let text: String
    package init(text: String) { self.text = text }
  }

  /// What happened, for who wants to know whether the programs were about something.
  package struct Tally {
    package var kinds: [String: Int] = [:]
    package var started = 0
    /// The longest wait until one began, and until the turn of a job, in parts of what was promised.
    package var worst = 0.0
    package var worstTurn = 0.0
    /// How often a flood was seen, room was made, and a worker that waits for the memory map was replaced.
    package var floods = 0
    package var extraRooms = 0
    package var replacedOnMap = 0

    package init() {}

    package mutating func add(_ other: Tally) {
      kinds.merge(other.kinds, uniquingKeysWith: +)
      started += other.started
      (worst, worstTurn) = (max(worst, other.worst), max(worstTurn, other.worstTurn))
      floods += other.floods
      extraRooms += other.extraRooms
      replacedOnMap += other.replacedOnMap
    }
  }

  /// What is broken, for tests of the judge.
  package struct Bugs: Sendable {
    /// Steps that the monitor does not carry out.
    package var ignores: @Sendable (PoolPolicy.Step) -> Bool = { _ in false }
    /// Makes the policy's thresholds wrong; the judge has its own.
    package var distort: @Sendable (inout PoolPolicy.Rules) -> Void = { _ in }
    /// Whether a flood that was seen ends.
    package var endsFloods = true

    package init() {}
  }

  private let width: Int
  private var foreground: ModelledPool
  private var background: ModelledPool
  /// Of both pools.
  package var tally: Tally {
    var tally = foreground.tally
    tally.add(background.tally)
    return tally
  }

  /// - Parameters:
  ///   - width: the CPUs.
  ///   - canRaise: whether the process may raise a thread of the background.
  package init(width: Int, canRaise: Bool = true, bugs: Bugs = Bugs()) {
    self.width = width
    foreground = ModelledPool(.foreground, width: width, canRaise: canRaise, bugs: bugs)
    background = ModelledPool(.background, width: width, canRaise: canRaise, bugs: bugs)
  }

  /// Runs the programs, whose arrivals are in order, until all have ended.
  package mutating func run(_ programs: [Program]) throws(Violation) {
    let begin = foreground.now
    var next = 0
    while next < programs.count || foreground.isBusy || background.isBusy {
      while next < programs.count, begin + programs[next].arrival <= foreground.now {
        let program = programs[next]
        for _ in 0..<program.copies {
          if program.pool == .background { background.add(program) } else { foreground.add(program) }
        }
        next += 1
      }
      let used = try foreground.step(on: width)
      _ = try background.step(on: width - used)
      if foreground.now - begin > 60_000_000_000 { throw Violation(text: "it does not end") }
    }
  }
}
