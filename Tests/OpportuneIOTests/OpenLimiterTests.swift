import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Blocking opens beyond the limit of their class: they are queued, and continue one by one.
@Suite(.bounded) struct OpenLimiterTests {
  /// Those that keep their class are counted and kept by it, whatever their app is now.
  // R-NET-06, R-DISK-01
  @Test(arguments: backends)
  func thoseThatStayInTheirClassGoOn(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let broker = try makeBroker(backend) { $0.storage.queuedRequests = .stay }
      let io = try broker.makeApp(named: "opens", state: .background)
      let path = try makeFIFO(folder.appending("fifo"))
      let count = OpenLimiter.limit + 1
      let opens = (0..<count).map { _ in Task { try await io.open(path, .readOnly, within: .seconds(20)) } }
      try await eventually("the opens") {
        let app = try await broker.statistics().apps[0]
        return app.inFlight == count - 1 && app.background.submitted == count
      }
      io.setState(.active)
      _ = try await broker.statistics()
      let otherEnd = try FileDescriptor.open(path, .readWrite)
      for open in opens { try await io.close(try await open.value) }
      try otherEnd.close()
    }
  }

  /// An open that is kept is cancelled, or its app suspended, as it could go on: the next goes in its place.
  // R-DISK-01
  @Test(arguments: backends, [false, true])
  func theyGoOnThoughOneBeforeThemDoesNot(backend: IOConfiguration.Backend, isSuspended: Bool) async throws {
    try await withFolder { folder in
      let broker = try makeBroker(backend)
      let opens = try await WaitingOpens(broker, in: folder) { count in
        try await broker.statistics().background.submitted == count
      }
      let (apps, kept) = (opens.apps, opens.kept)
      let gate = DispatchSemaphore(value: 0)
      broker.reactor.post(Control { _ in gate.wait() })
      let earlyEnd = try FileDescriptor.open(opens.early, .readWrite)
      try await othersWork()  // so that the open has ended before the reactor hears of this
      if isSuspended { apps[1].setState(.suspended) } else { kept[0].cancel() }
      gate.signal()
      if !isSuspended { #expect(await code { _ = try await kept[0].value } == .cancelled) }
      // Where the reactor has heard of the end first, the first is on the thread already; the pool's it keeps
      // when cancelled.
      if backend == .uring || isSuspended {
        try await eventually("one of the two") {
          let apps = try await broker.statistics().apps
          return apps[1].inFlight + apps[2].inFlight == 1
        }
      }
      try await opens.end(isFirstOpen: isSuspended)
      try earlyEnd.close()
      await broker.shutdown()
    }
  }

  /// One that was woken waits for an operation's token, and leaves the queue instead of going: so the next is
  /// woken.
  // R-DISK-01
  @Test(arguments: backends, [false, true])
  func theyGoOnThoughOneLeavesTheQueue(backend: IOConfiguration.Backend, isSuspended: Bool) async throws {
    try await withFolder { folder in
      let broker = try makeBroker(backend) {
        $0.storage.operations = DevicePolicy.Rate(perSecond: 16, burst: 8)
      }
      let opens = try await WaitingOpens(broker, in: folder) { count in
        let statistics = try await broker.statistics()
        return statistics.background.submitted == count && statistics.storage.backgroundQueued == 0
      }
      let (apps, kept) = (opens.apps, opens.kept)
      // The last of these has to wait for its token, so there is no other for a while.
      let number = try FileDescriptor.open(folder, .readOnly)
      for _ in 0..<9 { try await apps[0].synchronize(number) }
      let earlyEnd = try FileDescriptor.open(opens.early, .readWrite)
      var isQueued = false
      try await eventually("the first's turn") {
        let statistics = try await broker.statistics()
        isQueued = statistics.storage.backgroundQueued == 1
        return isQueued || statistics.apps[1].inFlight == 1
      }
      if isSuspended { apps[1].setState(.suspended) } else { kept[0].cancel() }
      if isQueued {
        try await eventually("the second's turn") { try await broker.statistics().apps[2].inFlight == 1 }
      } else {
        print("skipped: the first went before it could be taken out of the queue")
      }
      try await opens.end(isFirstOpen: isSuspended)
      for end in [earlyEnd, number] { try end.close() }
      await broker.shutdown()
    }
  }
}

/// As many opens of a class as may wait for others, one of them of another path, and two more that are kept.
private struct WaitingOpens {
  /// Whose opens wait, and those whose open is kept.
  let apps: [AppIO]
  /// What one of the opens is of.
  let early: FilePath
  private(set) var kept: [Task<FileDescriptor, any Error>] = []
  private let path: FilePath
  private var waiting: [Task<FileDescriptor, any Error>] = []

  /// - Parameter isKept: whether so many requests were submitted by now, and the last is kept.
  init(_ broker: IOBroker, in folder: FilePath, isKept: @escaping @Sendable (Int) async throws -> Bool)
    async throws
  {
    let apps = try ["waits", "first", "second"].map { try broker.makeApp(named: $0, state: .background) }
    let (path, early) = (try makeFIFO(folder.appending("fifo")), try makeFIFO(folder.appending("early")))
    (self.apps, self.path, self.early) = (apps, path, early)
    waiting = (1..<OpenLimiter.limit).map { _ in Task { try await apps[0].open(path, .readOnly) } }
    waiting.append(Task { try await apps[0].open(early, .readOnly) })
    try await eventually("the opens") {
      try await broker.statistics().apps[0].inFlight == OpenLimiter.limit
    }
    for app in apps[1...] {
      kept.append(Task { try await app.open(path, .readOnly, within: .seconds(20)) })
      let count = OpenLimiter.limit + kept.count
      try await eventually("one that is kept") { try await isKept(count) }
    }
  }

  /// The other end comes, and all that are still there are open, and closed.
  func end(isFirstOpen: Bool) async throws {
    apps[1].setState(.background)
    let otherEnd = try FileDescriptor.open(path, .readWrite)
    for open in waiting { try await apps[0].close(try await open.value) }
    if isFirstOpen { try await apps[1].close(try await kept[0].value) }
    try await apps[2].close(try await kept[1].value)
    try otherEnd.close()
  }
}
