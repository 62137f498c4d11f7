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
  let make: @Sendable () -> any SearchServer

  /// All of this build, in the order of the tables.
  package static let all: [ServeContender] = [
    ServeContender(name: "opportune", summary: "apps of one scheduler, with the I/O and the memory broker") {
      OpportuneServer()
    },
    ServeContender(name: "threads", summary: "a thread per connection over SCHED_IDLE indexers") {
      ThreadServer(isTuned: false)
    },
    ServeContender(name: "dispatch", summary: "queues of Dispatch, user-interactive over background") {
      DispatchServer()
    },
    ServeContender(
      name: "swift-default", summary: "tasks of Swift's default executor, high over background priority"
    ) { SwiftDefaultServer() },
    ServeContender(
      name: "hand-tuned",
      summary:
        "threads told what is heavy: a pool of nice 10 apart, indexers at SCHED_IDLE and idle I/O class"
    ) { ThreadServer(isTuned: true) },
    ServeContender(
      name: "opportune-no-memory-broker",
      summary: "opportune with a cache of its own in place of purgeable memory"
    ) { OpportuneServer(lacks: .memoryBroker) },
    ServeContender(
      name: "opportune-no-io-broker", summary: "opportune with plain pread in place of the I/O broker's files"
    ) { OpportuneServer(lacks: .ioBroker) },
    ServeContender(
      name: "opportune-no-donation", summary: "opportune where who is waited for is not raised"
    ) { OpportuneServer(lacks: .donation) },
  ]

  /// The contenders of `names`, all where empty.
  static func select(_ names: [String]) throws(BenchError) -> [ServeContender] {
    var chosen: [ServeContender] = []
    for name in names {
      guard let kind = all.first(where: { $0.name == name }) else {
        throw .invalid("--contender", name, expected: "one of \(all.map(\.name).joined(separator: ", "))")
      }
      if !chosen.contains(where: { $0.name == name }) { chosen.append(kind) }
    }
    return chosen.isEmpty ? all : chosen
  }
}
