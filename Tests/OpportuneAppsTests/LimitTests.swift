import OpportuneApps
import TestSupport
import Testing

/// Each limit takes effect exactly at its setting, to the tick.
@Suite(.bounded) struct LimitTests {
  struct Limit: Sendable, CustomTestStringConvertible {
    let name: String
    var modes: Set<Manifest.Mode> = []
    let set: @Sendable (inout AppsPolicy) -> Void
    var behaves: @Sendable (inout Behaviour) -> Void = { _ in }
    /// Until it begins to count.
    let prepare: @Sendable (inout Rig) throws -> Void
    let seconds: Double
    let isReached: @Sendable (Rig) -> Bool
    var testDescription: String { name }
  }

  static let limits: [Limit] = [
    Limit(
      name: "callbackLimit", set: { $0.callbackLimit = .seconds(2) }, behaves: { $0.callback = nil },
      prepare: { try $0.does(.launch) }, seconds: 2,
      isReached: { $0.diagnoses() == [.callbackOverrun(.didFinishLaunching)] }),
    Limit(
      name: "eventTime", set: { $0.eventTime = .seconds(3) }, behaves: { $0.handling = nil },
      prepare: {
        try $0.suspend()
        try $0.does(.message(Message("mail")))
      }, seconds: 3, isReached: { $0.state() == .suspended }),
    Limit(
      name: "sliceAllowance", set: { $0.sliceAllowance = .seconds(4) }, behaves: { $0.slice = nil },
      prepare: {
        try $0.leave()
        try $0.wait(5)
      }, seconds: 4, isReached: { $0.diagnoses().contains(.sliceOverrun) }),
    Limit(
      name: "tasks.handlerTime", set: { $0.tasks.handlerTime = .seconds(2) },
      behaves: { $0.expiration = nil },
      prepare: {
        try $0.does(.launch)
        try $0.does(.beginTask(.other))
        try $0.does(.leave)
        try $0.wait(180)
      }, seconds: 2, isReached: { $0.state() == .notRunning }),
    Limit(
      name: "fetch.shortest", modes: [.fetch], set: { $0.fetch.shortest = .seconds(100) },
      prepare: { try $0.leave() },
      seconds: 100, isReached: { $0.count(.fetch) == 1 }),
    Limit(
      name: "fetch.longest", modes: [.fetch],
      set: {
        $0.fetch.shortest = .seconds(100)
        $0.fetch.longest = .seconds(150)
      },
      behaves: {
        $0.fetchResult = .noData
        $0.fetch = .seconds(1)
      },
      prepare: {
        try $0.leave()
        try $0.wait(101)
      }, seconds: 150, isReached: { $0.count(.fetch) == 2 }),
    Limit(
      name: "fetch.limit", modes: [.fetch],
      set: {
        $0.fetch.shortest = .seconds(100)
        $0.fetch.limit = .seconds(7)
      }, behaves: { $0.fetch = nil },
      prepare: {
        try $0.leave()
        try $0.wait(100)
      }, seconds: 7, isReached: { $0.diagnoses().contains(.fetchOverrun) }),
    Limit(
      name: "network.minimumHeartbeat", modes: [.voip], set: { $0.network.minimumHeartbeat = .seconds(10) },
      prepare: {
        try $0.does(.launch)
        try $0.does(.heartbeat(.seconds(10)))
        try $0.does(.leave)
        try $0.wait(5)
      }, seconds: 10, isReached: { $0.count(.heartbeat) == 1 }),
  ]

  // R-FTS-03, R-TASK-13, R-MSG-03, R-MAN-02, R-VOIP-02
  @Test(arguments: limits) func itIsASetting(_ limit: Limit) throws {
    var behaviour = Behaviour()
    limit.behaves(&behaviour)
    var rig = try Rig([manifest("app", limit.modes)], behaviour: behaviour, limit.set)
    try limit.prepare(&rig)
    try rig.wait(limit.seconds - 0.001)
    #expect(!limit.isReached(rig))
    try rig.wait(0.001)
    #expect(limit.isReached(rig))
  }

  // R-VOIP-02
  @Test func aHeartbeatBelowItsLeastIsRefused() throws {
    var rig = try Rig([manifest("app", [.voip])]) { $0.network.minimumHeartbeat = .seconds(10) }
    try rig.does(.launch)
    #expect(throws: AppsError(.heartbeatTooShort(rig.app, .seconds(9), minimum: .seconds(10)))) {
      try rig.does(.heartbeat(.seconds(9)))
    }
  }
}
