import Foundation
import OpportuneApps
import TestSupport
import Testing

@Suite(.bounded) struct LocalNotificationTests {
  private func seconds(_ text: String) throws -> Double {
    try #require(ISO8601DateFormatter().date(from: text)).timeIntervalSince1970
  }

  // R-MSG-09, R-MSG-10
  @Test func itFiresWhileItsAppIsSuspendedAndAllCanBeCancelled() throws {
    for cancels in [false, true] {
      var rig = try Rig()
      try rig.host.post(.wallClock(1_000_000))
      try rig.does(.launch)
      let note = LocalNotification(
        fireDate: .instant(1_003_600), body: "Tea", action: "Drink", sound: "gong.wav")
      try rig.does(.schedule(note))
      try rig.does(.leave)
      if cancels { try rig.does(.cancelLocalNotifications) }
      try rig.host.run(until: .seconds(3599.999))
      #expect(rig.count(.notify(note)) == 0)
      try rig.wait(0.001)
      #expect(rig.count(.notify(note)) == (cancels ? 0 : 1))
      try rig.wait(1)
      #expect(rig.state() == .suspended)
      try rig.wait(86_400)
      #expect(rig.count(.notify(note)) == (cancels ? 0 : 1))
    }
  }

  // R-MSG-01, R-MSG-02, R-MSG-03, R-MSG-04, R-MSG-05
  @Test func itsAppReceivesItInEachState() throws {
    let note = LocalNotification(
      fireDate: .instant(1_003_600), body: "Tea", action: "Drink", sound: "gong.wav")
    let message = Message(
      "notification", payload: ["body": "Tea", "action": "Drink", "sound": "gong.wav"], origin: .local)
    let places: [(AppEvent?, LifecycleState)] = [
      (nil, .active), (.leave, .background), (.terminate, .background), (.hibernate, .background),
    ]
    for (event, state) in places {
      for asks in [false, true] {
        var rig = try Rig { $0.messages.delivery = asks ? .ask : .reanimate }
        try rig.host.post(.wallClock(1_000_000))
        try rig.does(.launch)
        try rig.does(.schedule(note))
        if event == .hibernate {
          try rig.does(.leave)
          try rig.wait(5)
        }
        if let event { try rig.does(event) }
        try rig.host.run(until: .seconds(3600))
        #expect(rig.count(.notify(note)) == 1)
        #expect(rig.prompts().count == (asks && event != nil ? 1 : 0))
        if let prompt = rig.prompts().first { try rig.host.post(.answer(prompt, accepted: true)) }
        #expect(rig.count(.deliver(message)) == 1)
        #expect(rig.state() == (asks ? .active : state))
      }
    }
  }

  // R-MSG-10
  @Test func aDailyNotificationKeepsItsHourAcrossDaylightSaving() throws {
    var rig = try Rig()
    // Clocks in Berlin went forward on 2024-03-31 and back on 2024-10-27.
    for (start, hours) in [("2024-03-30T05:00:00Z", [1, 24, 48]), ("2024-10-26T04:00:00Z", [1, 26, 50])] {
      let wall = try seconds(start)
      try rig.host.post(.wallClock(wall))
      let day = start.hasPrefix("2024-03") ? (3, 30) : (10, 26)
      let note = LocalNotification(
        fireDate: .local(year: 2024, month: day.0, day: day.1, hour: 7, minute: 0, second: 0),
        timeZone: "Europe/Berlin", repeats: .daily, body: "up \(start)")
      let begin = rig.host.now
      try rig.does(.schedule(note))
      try rig.wait(3600 * 51)
      let fired = rig.host.log.filter { $0.action == .notify(note) }.map {
        Int(($0.moment - begin).inSecondsRounded / 3600)
      }
      #expect(fired == hours)
      try rig.does(.cancelLocalNotifications)
    }
  }

  // R-MSG-10
  @Test func aWeeklyNotificationKeepsItsDayAndAllAreCancelledAtOnce() throws {
    var rig = try Rig()
    try rig.host.post(.wallClock(1_000_000))
    let weekly = LocalNotification(fireDate: .instant(1_003_600), repeats: .weekly, body: "week")
    let daily = LocalNotification(fireDate: .instant(1_003_600), repeats: .daily, body: "day")
    for note in [weekly, daily] { try rig.does(.schedule(note)) }
    try rig.wait(86_400 * 15)
    #expect(rig.count(.notify(weekly)) == 3 && rig.count(.notify(daily)) == 15)
    try rig.does(.cancelLocalNotifications)
    try rig.wait(86_400 * 15)
    #expect(rig.count(.notify(weekly)) == 3 && rig.count(.notify(daily)) == 15)
  }

  // R-MSG-10
  @Test func itFollowsAJumpOfTheWallClock() throws {
    var rig = try Rig()
    try rig.host.post(.wallClock(1_000_000))
    let note = LocalNotification(fireDate: .instant(1_000_100), body: "soon")
    try rig.does(.schedule(note))
    try rig.host.post(.wallClock(999_000))  // set back
    try rig.wait(200)
    #expect(rig.count(.notify(note)) == 0)
    try rig.host.post(.wallClock(2_000_000))  // set far ahead: due at once
    try rig.wait(0)
    #expect(rig.count(.notify(note)) == 1)
    // What repeats does not make up for all that it missed.
    let daily = LocalNotification(fireDate: .instant(2_000_100), repeats: .daily, body: "each day")
    try rig.does(.schedule(daily))
    try rig.host.post(.wallClock(2_000_200 + 86_400 * 10))
    try rig.wait(86_000)
    #expect(rig.count(.notify(daily)) == 1)
    try rig.wait(300)
    #expect(rig.count(.notify(daily)) == 2)
  }

  // R-MSG-10
  @Test func datesThatAreNoneAreRefused() throws {
    var rig = try Rig()
    try rig.host.post(.wallClock(1_000_000))
    try rig.does(.launch)
    func local(_ year: Int, _ month: Int, _ day: Int, _ hour: Int = 0) -> LocalNotification.FireDate {
      .local(year: year, month: month, day: day, hour: hour, minute: 0, second: 0)
    }
    let dates: [LocalNotification.FireDate] = [
      .instant(.nan), .instant(.infinity), .instant(-1e25), local(2024, 13, 1), local(2023, 2, 29),
      local(2024, 1, 1, 24), local(.max, .min, .max),
    ]
    for date in dates {
      for repeats in LocalNotification.Repeat.allCases {
        let note = LocalNotification(fireDate: date, repeats: repeats, body: "never")
        #expect(throws: AppsError.self, "\(date)") { try rig.does(.schedule(note)) }
        #expect(note.nextFire(after: 0, isFirst: true) == nil)
      }
    }
    for seconds in [Double.nan, .infinity, -1e13] {
      #expect(throws: AppsError.self) { try rig.host.post(.wallClock(seconds)) }
    }
    try rig.does(.schedule(LocalNotification(fireDate: local(2024, 2, 29), body: "leap day")))
    try rig.wait(1)
    #expect(rig.actions().allSatisfy { if case .notify = $0 { false } else { true } })
  }

  // R-MSG-10
  @Test func anHourThatDoesNotExistIsTheNextInstant() throws {
    let note = LocalNotification(
      fireDate: .local(year: 2024, month: 3, day: 31, hour: 2, minute: 30, second: 0),
      timeZone: "Europe/Berlin",
      body: "gap")
    let fires = try #require(note.nextFire(after: 0, isFirst: true))
    #expect(try fires >= seconds("2024-03-31T01:00:00Z") && fires <= seconds("2024-03-31T01:30:00Z"))
  }
}

extension Duration {
  fileprivate var inSecondsRounded: Int64 { (self + .milliseconds(500)).components.seconds }
}
