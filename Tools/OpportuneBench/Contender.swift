/// One job: runs to its end on whichever thread the contender chooses.
package typealias Job = @Sendable () -> Void

/// What a contender is started with.
package struct ContenderSetup: Sendable {
  /// CPUs that the process may use.
  package let cores: Int
  /// Interactive jobs share their app with jobs that hog a CPU or block.
  package let hasHogs: Bool

  package init(cores: Int, hasHogs: Bool) {
    self.cores = cores
    self.hasHogs = hasHogs
  }
}

/// A way to run foreground jobs beside background ones. All contenders run the same job code.
///
/// A `submit` returns false where the job was refused; then it never runs. Any thread may call it, also from
/// inside a job.
package protocol Contender: AnyObject, Sendable {
  /// As the tables show it, and `--contender` takes it.
  var name: String { get }
  /// Whether its queues are lock-free, in a few words.
  var lockFreeNote: String { get }

  /// Makes its threads, pools and queues. Called once before any submit.
  func start(_ setup: ContenderSetup) throws
  /// Called once, after every accepted job has ended.
  func stop() async

  /// A job that a person waits for.
  func submitForeground(_ job: @escaping Job) -> Bool
  /// The same from a second foreground app.
  func submitSecondForeground(_ job: @escaping Job) -> Bool
  /// A job that nobody waits for.
  func submitBackground(_ job: @escaping Job) -> Bool
  /// A long or blocking job of the same app, in the same band and through the same executor as the
  /// interactive ones. Only `limit-told`, which is told the answer, sends it elsewhere.
  func submitForegroundHog(_ job: @escaping Job) -> Bool
  /// One foreground task that calls `step` until it returns false and yields after each call, then calls
  /// `ended`. Returns false where the contender knows no tasks: there each step is a job that submits the
  /// next.
  func startYieldingHog(_ step: @escaping @Sendable () -> Bool, ended: @escaping Job) -> Bool
}

extension Contender {
  package func start(_ setup: ContenderSetup) {}
  package func stop() async {}
  package func submitSecondForeground(_ job: @escaping Job) -> Bool { submitForeground(job) }
  package func submitForegroundHog(_ job: @escaping Job) -> Bool { submitForeground(job) }
  package func startYieldingHog(_ step: @escaping @Sendable () -> Bool, ended: @escaping Job) -> Bool {
    false
  }
}

/// A contender by name, and where it may run.
package struct ContenderKind: Sendable {
  package let name: String
  /// Where it has something to say.
  package let place: Place
  /// Needs the right to use real-time classes.
  package let needsRoot: Bool
  let make: @Sendable () -> any Contender

  /// Scenarios in which a contender takes part.
  package enum Place: Sendable {
    case everywhere
    /// Only where the foreground hurts itself: there it shows a limit, elsewhere it says nothing new.
    case onlyWithHogs
    /// Not where CPU-bound jobs would get its real-time class: nothing else would run on the machine.
    case notWithHogs
    /// Everywhere, but only if it is asked for by name: a variant, for choosing a default.
    case whereNamed
  }

  /// All contenders that this build knows, in the order of the tables.
  package static let all: [ContenderKind] =
    opportuneKinds + [
      ContenderKind(name: "dispatch", place: .everywhere, needsRoot: false) { DispatchContender() },
      ContenderKind(name: "swift-default", place: .everywhere, needsRoot: false) { SwiftDefaultContender() },
      ContenderKind(name: "limit-idle", place: .everywhere, needsRoot: false) {
        LimitContender(name: "limit-idle", foreground: .normal)
      },
      ContenderKind(name: "limit-fifo", place: .notWithHogs, needsRoot: true) {
        LimitContender(name: "limit-fifo", foreground: .fifo)
      },
      ContenderKind(name: "limit-told", place: .onlyWithHogs, needsRoot: false) {
        LimitContender(name: "limit-told", foreground: .normal, isTold: true)
      },
      ContenderKind(name: "one-queue-spare", place: .onlyWithHogs, needsRoot: false) {
        LimitContender(name: "one-queue-spare", foreground: .normal, spareThreads: 1)
      },
      ContenderKind(name: "thread-per-job", place: .onlyWithHogs, needsRoot: false) {
        ThreadPerJobContender()
      },
    ]

  /// The kinds of `names` (all where empty), checked against this user's rights.
  package static func select(_ names: [String], isRoot: Bool) throws(BenchError) -> [ContenderKind] {
    if names.isEmpty { return all.filter { (isRoot || !$0.needsRoot) && $0.place != .whereNamed } }
    var chosen: [ContenderKind] = []
    for name in names {
      guard let kind = all.first(where: { $0.name == name }) else {
        throw .invalid("--contender", name, expected: "one of \(all.map(\.name).joined(separator: ", "))")
      }
      guard isRoot || !kind.needsRoot else {
        throw BenchError(
          .unavailable, "--contender '\(name)' needs root: it puts threads into a real-time class")
      }
      if !chosen.contains(where: { $0.name == name }) { chosen.append(kind) }
    }
    return chosen
  }
}
