import OpportuneApps
import TestSupport
import Testing

/// Services and restrictions, each on and off in combination with every other one.
@Suite(.bounded) struct CombinationTests {
  private static let switches: [(String, @Sendable (inout AppsPolicy, Bool) -> Void)] = [
    ("switching", { $0.switching = $1 ? .all : .off }), ("tasks", { $0.tasks.isOn = $1 }),
    ("audio", { $0.audio.isOn = $1 }), ("messages", { $0.messages.isOn = $1 }),
    ("network keep-alive", { $0.network.isOn = $1 }), ("fetch", { $0.fetch.isOn = $1 }),
    ("power", { $0.power.fullOnMains = $1 }), ("cpu", { $0.restrictions.set(.cpu, $1) }),
    ("storage", { $0.restrictions.set(.storage, $1) }), ("network", { $0.restrictions.set(.network, $1) }),
    ("graphics", { $0.restrictions.set(.graphics, $1) }),
    ("hardware", { $0.restrictions.set(.hardware, $1) }),
    ("locks", { $0.restrictions.set(.locks, $1) }),
  ]

  /// What each does, seen from outside, with all others as they are.
  private func effects(_ policy: AppsPolicy) throws -> [Bool] {
    func rig(_ modes: Set<Manifest.Mode> = [], _ prepare: [AppAction] = [], wait: Double = 6) throws -> Rig {
      var rig = try Rig([manifest("app", modes)]) { $0 = policy }
      try rig.does(.launch)
      for event in prepare { try rig.does(event) }
      try rig.does(.leave)
      try rig.wait(wait)
      return rig
    }
    let plain = try rig()
    let task = try rig([], [.beginTask(.upload)])
    let audio = try rig([.audio], [.audioBegan(.play)], wait: 0)
    let mail = try { () throws -> Rig in
      var rig = try rig()
      try rig.does(.message(Message("m")))
      return rig
    }()
    let phone = try { () throws -> Rig in
      var rig = try rig([.voip])
      try rig.does(.hibernate, 0, orNot: true)
      if rig.state() != .background { try rig.does(.data(bytes: 1)) }
      return rig
    }()
    let news = try rig([.fetch], wait: 1000)
    var mains = try Rig { $0 = policy }
    try mains.host.post(.power(.mains))
    try mains.leave()
    let behind = try rig([], [], wait: 0)
    let locked = try rig([], [.lock(.fileDescriptor)])
    let r = try behind.restrictions()
    return [
      plain.state() == .suspended, !task.tasks().isEmpty,
      audio.host.system.timeRemaining(of: audio.app) == nil || policy.switching == .off,
      mail.delivered() == ["m"],
      phone.count(.data(bytes: 1)) == 1, news.count(.fetch) == 1,
      try mains.restrictions().storage == .foreground,
      r.cpu == .background, r.storage == .background, r.network == .background, !r.mayDraw,
      r.deniedHardware.contains(.camera), locked.diagnoses().contains(.heldLock(.fileDescriptor)),
    ]
  }

  // R-SYS-02
  @Test func everyPairOfServicesAndRestrictions() throws {
    for first in Self.switches.indices {
      for second in Self.switches.indices where second > first {
        for bits in 0..<4 {
          var policy = AppsPolicy()
          policy.power.fullOnMains = false
          var expected = [Bool](repeating: true, count: Self.switches.count)
          expected[6] = false
          for (index, bit) in [(first, 1), (second, 2)] {
            Self.switches[index].1(&policy, bits & bit != 0)
            expected[index] = bits & bit != 0
          }
          var got = try effects(policy)
          // Where these stay in background for ever, nothing is woken, suspended or taken away.
          if policy.switching == .off {
            for index in [2, 4, 12] { got[index] = expected[index] }
          }
          if !policy.restrictions.resources.contains(.storage) { got[6] = expected[6] }
          let names = Self.switches.indices.filter { got[$0] != expected[$0] }.map { Self.switches[$0].0 }
          #expect(names.isEmpty, "\(Self.switches[first].0) × \(Self.switches[second].0), \(bits)")
        }
      }
    }
  }
}

/// What an app does before it leaves the front, where the order does not matter.
@Suite(.bounded) struct OrderTests {
  private func orders<Step>(_ steps: [Step]) -> [[Step]] {
    guard steps.count > 1 else { return [steps] }
    return steps.indices.flatMap { first in
      var rest = steps
      let step = rest.remove(at: first)
      return orders(rest).map { [step] + $0 }
    }
  }

  // R-SYS-04
  @Test func stepsMayComeInAnyOrder() throws {
    let steps: [AppAction] = [
      .unlock(.addressBook), .release(.camera), .audioEnded, .compliance(.saves), .compliance(.timerStops),
    ]
    for order in orders(steps) {
      var rig = try Rig([manifest("app", [.audio])])
      try rig.does(.launch)
      for event in [
        AppAction.lock(.addressBook), .request(.camera), .audioBegan(.play), .compliance(.timerStarts),
      ] {
        try rig.does(event)
      }
      for event in order { try rig.does(event) }
      try rig.does(.leave)
      try rig.wait(5)
      #expect(
        rig.state() == .suspended && rig.diagnoses().isEmpty && rig.count(.revoked(.camera)) == 0, "\(order)")
    }
    // Without them it does matter.
    var rig = try Rig([manifest("app", [.audio])])
    try rig.leave(after: .lock(.addressBook))
    try rig.wait(5)
    #expect(!rig.diagnoses().isEmpty)
  }
}

extension Rig {
  fileprivate mutating func does(_ event: AppEvent, _ index: Int, orNot: Bool) throws {
    do { try does(event, index) } catch  where orNot {}
  }
}

extension RestrictionPolicy {
  fileprivate mutating func set(_ resource: Resources, _ isOn: Bool) {
    if isOn { resources.insert(resource) } else { resources.remove(resource) }
  }
}
