/// A way to run the search server: its threads, queues and sockets. All run the same ``SearchEngine``.
protocol SearchServer: AnyObject, Sendable {
  /// Opens the index and listens; background begins as well, if the setup has it.
  func start(_ setup: ServerSetup) async throws
  /// Ends what it has started, as far as it can be ended without waiting for clients.
  func stop() async
}

/// A contender of `opportune bench serve` by name.
package struct ServeContender: Sendable {
  package let name: String
  /// One line for `--help` and the page.
  package let summary: String
  /// Its server; nil where that is a program of its own, which links what this one does not.
  let make: (@Sendable () -> any SearchServer)?

  private init(_ name: String, _ summary: String, _ make: (@Sendable () -> any SearchServer)? = nil) {
    self.name = name
    self.summary = summary
    self.make = make
  }

  /// All, in the order of the tables.
  package static let all: [ServeContender] = [
    ServeContender("opportune", "apps of one scheduler, with the I/O and the memory broker") {
      OpportuneServer()
    },
    ServeContender("threads", "a thread per connection over SCHED_IDLE indexers") {
      ThreadServer(isTuned: false)
    },
    ServeContender("dispatch", "queues of Dispatch, user-interactive over background") { DispatchServer() },
    ServeContender("swift-default", "tasks of Swift's default executor, high over background priority") {
      SwiftDefaultServer()
    },
    ServeContender(
      "nio", "SwiftNIO's event loops, and a thread pool each for queries and indexers (--nio-rival)"),
    ServeContender(
      "hand-tuned",
      "threads told what is heavy: a pool of nice 10 apart, indexers at SCHED_IDLE and idle I/O class"
    ) { ThreadServer(isTuned: true) },
    ServeContender(
      "opportune-no-memory-broker", "opportune with a cache of its own in place of purgeable memory"
    ) { OpportuneServer(lacks: .memoryBroker) },
    ServeContender("opportune-no-io-broker", "opportune with plain pread in place of the I/O broker's files")
    {
      OpportuneServer(lacks: .ioBroker)
    },
    ServeContender("opportune-no-donation", "opportune where who is waited for is not raised") {
      OpportuneServer(lacks: .donation)
    },
    ServeContender(
      "opportune-no-io-donation",
      "opportune where who is waited for is raised on the CPU, but not its reads"
    ) { OpportuneServer(lacks: .ioDonation) },
    ServeContender(
      "opportune-reactor-receives", "opportune where a receive waits in the reactor, not with the workers"
    ) { OpportuneServer(lacks: .receivesOnWorkers) },
    ServeContender(
      "opportune-real-time", "opportune with its foreground in a real-time class, within bounds"
    ) { OpportuneServer(foregroundClass: .realTime()) },
    ServeContender(
      "opportune-target",
      "opportune with a target: 99 of 100 short requests answered within 1 ms of being read from the socket"
    ) { OpportuneServer(target: .latency(p99: .milliseconds(1))) },
  ]

  /// nil where there is none of that name.
  static func named(_ name: String) -> ServeContender? { all.first { $0.name == name } ?? held(name) }

  /// `opportune-level-N`: as of each level that a target moves background to, so that what that does can be
  /// compared with the best level held. Not among all: what they are depends on the machine.
  private static func held(_ name: String) -> ServeContender? {
    let prefix = "opportune-level-"
    guard name.hasPrefix(prefix), let level = Int(name.dropFirst(prefix.count)), 1...64 ~= level else {
      return nil
    }
    return ServeContender(
      name, "opportune with its background at level \(level) of those that a target moves"
    ) {
      OpportuneServer(backgroundLevel: level)
    }
  }

  /// The contenders of `names`; where empty, all that can run.
  ///
  /// - Parameter hasRival: whether there is the program of those that this one does not link.
  static func select(_ names: [String], hasRival: Bool) throws(BenchError) -> [ServeContender] {
    if names.isEmpty { return all.filter { $0.make != nil || hasRival } }
    var chosen: [ServeContender] = []
    for name in names {
      guard let kind = named(name) else {
        let known = all.map(\.name).joined(separator: ", ")
        throw .invalid("--contender", name, expected: "one of \(known), or opportune-level-1 to -64")
      }
      guard kind.make != nil || hasRival else {
        throw BenchError(.unavailable, "--contender '\(name)' needs its program, by --nio-rival")
      }
      if !chosen.contains(where: { $0.name == name }) { chosen.append(kind) }
    }
    return chosen
  }
}
