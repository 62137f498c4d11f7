/// Which holders of the program's locks are helped, and for how long, where work that stands higher waits for
/// them.
///
/// A thread of the background that is inside a critical section has next to no weight beside a foreground
/// hog; who waits for its lock waits as if it were of the background itself. The monitor looks now and then
/// who waits for whom (``look(_:now:)``), and this says what is to be done about it: waits in, actions out.
package struct InversionPolicy: Sendable {
  /// A worker inside one job.
  package struct Slice: Hashable, Sendable {
    package let thread: Int32
    /// Which of its jobs, `WorkerReport.Reading.sequence`.
    package let job: UInt64

    package init(thread: Int32, job: UInt64) { (self.thread, self.job) = (thread, job) }
  }

  /// Somebody who waits for a lock, or holds one, with the kernel priority that is its own: without the help
  /// that it may have.
  package struct Party: Hashable, Sendable {
    package let slice: Slice
    package let priority: KernelPriority

    package init(slice: Slice, priority: KernelPriority) { (self.slice, self.priority) = (slice, priority) }
  }

  /// One waits for a lock that another holds.
  package struct Wait: Hashable, Sendable {
    package let waiter: Party
    package let holder: Party
    /// Whether the waiter is a foreground job. Other waits are links of a chain: a holder that itself waits.
    package let isForeground: Bool

    package init(waiter: Party, holder: Party, isForeground: Bool) {
      (self.waiter, self.holder, self.isForeground) = (waiter, holder, isForeground)
    }
  }

  package enum Action: Hashable, Sendable {
    /// The holder is to get on as its waiter would.
    case help(Slice, as: KernelPriority)
    /// It has let go, or had its time.
    case leave(Slice)
  }

  /// How long one is helped at most, in nanoseconds: who holds a lock for longer than that has more to do in
  /// it than the foreground can be asked to make room for.
  let limit: UInt64

  private struct Help {
    let since: UInt64
    var priority: KernelPriority
    var isSpent = false
  }

  /// The holders that are being helped, or whose time of help is used up while they are still waited for.
  private var helped: [Slice: Help] = [:]

  package init(limit: UInt64) { self.limit = limit }

  /// Whether anybody is helped now.
  package var isHelping: Bool { helped.values.contains { !$0.isSpent } }

  /// Whether it knows of nobody, so that a look without waits would change nothing.
  package var isIdle: Bool { helped.isEmpty }

  /// - Parameters:
  ///   - waits: all that are known now.
  ///   - now: nanoseconds of a clock that does not go back.
  /// - Returns: what is to be done, in this order; each slice once.
  package mutating func look(_ waits: [Wait], now: UInt64) -> [Action] {
    let wanted = Self.wanted(waits)
    var actions: [Action] = []
    for (slice, help) in helped.sorted(by: { $0.key < $1.key }) {
      if wanted[slice] == nil {
        helped[slice] = nil
        if !help.isSpent { actions.append(.leave(slice)) }
      } else if !help.isSpent, now >= help.since, now - help.since >= limit {
        helped[slice]?.isSpent = true
        actions.append(.leave(slice))
      }
    }
    for (slice, priority) in wanted.sorted(by: { $0.key < $1.key }) {
      if let help = helped[slice] {
        guard !help.isSpent, priority.outranks(help.priority) else { continue }
        helped[slice]?.priority = priority
      } else {
        helped[slice] = Help(since: now, priority: priority)
      }
      actions.append(.help(slice, as: priority))
    }
    return actions
  }

  /// What a holder of the priority `own` gets for the sake of who waits for it; nil where the process may not
  /// give it that.
  ///
  /// - Parameters:
  ///   - waiter: the priority of who waits.
  ///   - foreground: that of fresh work: the real-time class is for the jobs of its own pool.
  ///   - canRaise: whether the process may raise the priority of a thread.
  package static func priority(
    for own: KernelPriority, as waiter: KernelPriority, foreground: KernelPriority, canRaise: Bool
  ) -> KernelPriority? {
    let wanted = waiter.policy == .roundRobin ? foreground : waiter
    return canRaise || wanted.policy == own.policy && wanted.nice >= own.nice ? wanted : nil
  }

  /// A job of the foreground's pool on the CPU of a holder that cannot be raised.
  package struct Neighbour: Hashable, Sendable {
    package let party: Party
    package let isDemoted: Bool
    /// Nanoseconds since it began.
    package let age: UInt64

    package init(party: Party, isDemoted: Bool, age: UInt64) {
      (self.party, self.isDemoted, self.age) = (party, isDemoted, age)
    }
  }

  /// Whether a job has to make room for a holder.
  package enum Move: Hashable, Sendable, CaseIterable {
    case no
    /// To other CPUs, if there are any.
    case away
    /// The same; if there are none it is lowered, which is not for fresh work: no unprivileged process can
    /// undo it.
    case orLower
  }

  /// How long a fresh job has run that is no short one any more, in nanoseconds; moving it would cost a short
  /// one more than it takes.
  package static let shortest = LockWatch.patience

  /// Whether `neighbour` is to leave the CPU of a holder of the priority `holder`.
  package static func move(_ neighbour: Neighbour, for holder: KernelPriority, waiters: Set<Slice>) -> Move {
    guard neighbour.party.priority.outranks(holder), !waiters.contains(neighbour.party.slice) else {
      return .no
    }
    if neighbour.isDemoted { return .orLower }
    return neighbour.age >= shortest ? .away : .no
  }

  /// Who keeps the foreground waiting and stands below it, directly or because it is waited for by one that
  /// does; with the highest priority that waits.
  private static func wanted(_ waits: [Wait]) -> [Slice: KernelPriority] {
    let next = Dictionary(waits.map { ($0.waiter.slice, $0.holder) }, uniquingKeysWith: { first, _ in first })
    var wanted: [Slice: KernelPriority] = [:]
    for wait in waits where wait.isForeground {
      // Who waits in a circle waits for ever; it is walked once.
      var seen: Set = [wait.waiter.slice]
      var holder: Party? = wait.holder
      while let party = holder, seen.insert(party.slice).inserted {
        let priority = wait.waiter.priority
        if priority.outranks(party.priority), wanted[party.slice].map(priority.outranks) ?? true {
          wanted[party.slice] = priority
        }
        holder = next[party.slice]
      }
    }
    return wanted
  }
}

extension InversionPolicy.Slice: Comparable {
  package static func < (lhs: Self, rhs: Self) -> Bool { (lhs.thread, lhs.job) < (rhs.thread, rhs.job) }
}

extension KernelPriority {
  /// Whether the kernel gives a thread of this priority the CPU before one of the other, or more of it.
  package func outranks(_ other: KernelPriority) -> Bool {
    orderingKey.lexicographicallyPrecedes(other.orderingKey)
  }

  /// The smaller has precedence.
  private var orderingKey: [Int] {
    switch policy {
    case .roundRobin: [0, -realTimePriority]
    case .normal:
      [1, nice, Int(clamping: sliceNanoseconds == 0 ? Self.usualSliceNanoseconds : sliceNanoseconds)]
    case .idle: [2]
    }
  }

  /// Of a thread that has chosen none, about.
  private static let usualSliceNanoseconds: UInt64 = 3_000_000
}
