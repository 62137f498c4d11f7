import OpportuneBase

/// Where the time of requests went, from the intended keystroke to the answer: sums over requests.
struct ServeTimeSpent: Sendable {
  /// What a request is in, in the order of the table. The parts of a request add up to its latency,
  /// but where clocks that are read one after the other say more of it than there was.
  enum Part: Int, CaseIterable, Sendable {
    /// Until the server came to answer: on its way, for a thread, for a token, behind others.
    case queue
    /// CPU time of the engine's own code.
    case cpu
    /// Between asking for a read and having it.
    case reading
    /// For what others have under way: a block that is being read, a segment that is being built.
    case others
    /// In the engine's own code: preempted, or woken and not running yet.
    case cpuWait
    /// In the engine's own code: asleep, for a lock or for a page of memory.
    case locks
    /// In between: from what a request has waited for until its code goes on, as by a hop to another thread.
    case hops
    /// From the answer's end to the client.
    case reply

    var head: String {
      switch self {
      case .queue: "queue"
      case .cpu: "CPU"
      case .reading: "reads"
      case .others: "others"
      case .cpuWait: "CPU wait"
      case .locks: "locks"
      case .hops: "hops"
      case .reply: "reply"
      }
    }

    /// In JSON.
    var name: String { head.lowercased().split(separator: " ").joined(separator: "_") }
  }

  private var sums = [Double](repeating: 0, count: Part.allCases.count)
  private(set) var requests = 0

  /// Mean microseconds.
  subscript(part: Part) -> Double { requests > 0 ? sums[part.rawValue] / Double(requests) / 1000 : 0 }

  /// - Parameter sample: one that was answered.
  mutating func count(_ sample: ServeSample) {
    let spent = sample.spent
    let inside = elapsed(from: spent.begin, to: spent.end)
    let known = spent.cpu &+ spent.reading &+ spent.waiting &+ spent.cpuWait &+ spent.locks
    let parts = [
      elapsed(from: sample.intended, to: spent.begin), spent.cpu, spent.reading, spent.waiting,
      spent.cpuWait, spent.locks, inside > known ? inside - known : 0,
      elapsed(from: spent.end, to: sample.answered),
    ]
    for (index, part) in parts.enumerated() { sums[index] += Double(part) }
    requests += 1
  }
}

/// Of one kind of request: all that were answered, and the latest hundredth of each window.
struct ServeSpending: Sendable {
  private(set) var all = ServeTimeSpent()
  private(set) var late = ServeTimeSpent()

  mutating func count(_ samples: [ServeSample]) {
    let answered = samples.filter { $0.answered != 0 && $0.spent.begin != 0 }
    for sample in answered { all.count(sample) }
    guard answered.count >= KnownPercentiles.requestsMin else { return }
    for sample in answered.latestHundredth(by: { $0.answered &- $0.intended }) { late.count(sample) }
  }
}
