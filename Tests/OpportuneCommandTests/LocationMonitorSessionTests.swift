import Foundation
import OpportuneApps
import OpportuneLocation
import TestSupport
import Testing

@testable import OpportuneCommand

/// The command's fences and settings, with fixes that the test makes.
@Suite(.bounded) struct LocationMonitorSessionTests {
  private let folder: Folder
  private let store: LocationSettingsFile

  init() throws {
    folder = try Folder()
    store = LocationSettingsFile(folder.path("location.json"))
  }

  private func session(settings: Bool = true, dwell: Duration? = nil) throws -> LocationMonitorSession {
    let home = try Coordinate(latitude: 50, longitude: 8)
    let fences = try PermittedFences(
      "reader", fences: [NamedRegion("home", try .circle(home, radius: 50), dwell: dwell)],
      purpose: "To test.",
      monitor: .standard)
    return LocationMonitorSession(fences, settings: settings ? store : nil)
  }

  /// Moves the device, a minute a fix, so that each fix decides.
  private func move(
    _ session: inout LocationMonitorSession, to metres: Double, minute: Int
  ) throws -> [LocationMonitorSession.News] {
    let place = try Coordinate(latitude: 50 + metres / 111_229, longitude: 8)
    let moment = Moment.zero + .seconds(60 * minute)
    return try session.handle(
      .fix(Fix(place, accuracy: Accuracy(standardDeviation: 1), time: moment)), at: moment)
  }

  private func kinds(_ news: [LocationMonitorSession.News]) -> [String] {
    news.compactMap { if case .crossing(let crossing, "home") = $0 { crossing.kind.rawValue } else { nil } }
  }

  private func notes(_ news: [LocationMonitorSession.News]) -> [String] {
    news.compactMap { if case .note(let text) = $0 { text } else { nil } }
  }

  @Test func withoutSettingsEachCrossingIsTold() throws {
    var session = try session(settings: false)
    #expect(try questions(session.start()) == [.indicator(AppID(0), .hollow)])
    var told: [String] = []
    for (minute, metres) in [500.0, 0, 500].enumerated() {
      told += try kinds(move(&session, to: metres, minute: minute + 1))
    }
    #expect(told == ["enter", "exit"])
  }

  // R-GEO-01
  @Test func aStayIsTold() throws {
    var session = try session(settings: false, dwell: .seconds(90))
    _ = try session.start()
    var told: [[String]] = []
    for (minute, metres) in [500.0, 0, 0, 0, 500].enumerated() {
      told.append(try kinds(move(&session, to: metres, minute: minute + 1)))
    }
    #expect(told == [[], ["enter"], [], ["dwell"], ["exit"]])
  }

  // R-AUTH-24
  @Test func whatIsSwitchedOffIsToBeSwitchedOn() throws {
    try store.update {
      $0.isEnabled = false
      $0.apps["reader"] = .allowed(.always)
    }
    var session = try session()
    #expect(try notes(session.start()).last?.hasSuffix("location settings \(store.path) on") == true)
  }

  // R-AUTH-10, R-AUTH-12, R-AUTH-24
  @Test func aChangedSettingHoldsFromTheNextFixOn() throws {
    var session = try session()
    let notes = try notes(session.start())
    #expect(notes.count == 1 && notes[0].contains("location settings \(store.path) set reader always"))
    #expect(try store.read().apps == ["reader": .notDetermined], "the app is in the pane")
    _ = try move(&session, to: 500, minute: 1)
    #expect(try kinds(move(&session, to: 0, minute: 2)) == [], "nothing was allowed yet")
    try store.update { $0.apps["reader"] = .allowed(.always) }
    _ = try move(&session, to: 500, minute: 3)
    #expect(try kinds(move(&session, to: 0, minute: 4)) == ["enter"])
    try store.update { $0.apps["reader"] = .denied }
    let news = try move(&session, to: 500, minute: 5)
    #expect(kinds(news) == [] && self.notes(news) == ["reader: denied"], "taken back before the exit")
    try store.update { $0.apps["reader"] = .allowed(.always) }
    #expect(try kinds(move(&session, to: 0, minute: 6)) == ["enter"])
    try store.update { $0.isEnabled = false }
    #expect(try kinds(move(&session, to: 500, minute: 7)) == [])
    try store.update { $0.isEnabled = true }
    #expect(try kinds(move(&session, to: 0, minute: 8)) == ["enter"])
  }

  private func questions(_ news: [LocationMonitorSession.News]) -> [LocationEffect] {
    news.compactMap { if case .question(let effect) = $0 { effect } else { nil } }
  }

  private func alert(_ news: [LocationMonitorSession.News]) throws -> AlertID {
    let alerts = questions(news).compactMap { if case .alert(let alert, _, _) = $0 { alert } else { nil } }
    return try #require(alerts.first)
  }

  // R-AUTH-13, R-AUTH-19, R-AUTH-20, R-AUTH-21
  @Test func whatIsForUseOnlyGoesByWayOfAnAlert() throws {
    try store.update { $0.apps["reader"] = .allowed(.whenInUse) }
    var session = try session()
    #expect(try notes(session.start()) == ["reader: whenInUse"])
    _ = try move(&session, to: 500, minute: 1)
    let entered = try move(&session, to: 0, minute: 2)
    #expect(kinds(entered) == [])
    let time = Moment.zero + .seconds(121)
    #expect(try kinds(session.handle(.alert(alert(entered), .open), at: time)) == ["enter"])
    let left = try move(&session, to: 500, minute: 3)
    #expect(kinds(left) == [])
    #expect(try kinds(session.handle(.alert(alert(left), .close), at: time)) == [])
    // Revoked between alert and open.
    let again = try move(&session, to: 0, minute: 4)
    try store.update { $0.apps["reader"] = .denied }
    #expect(try kinds(session.handle(.alert(alert(again), .open), at: time)) == [])
  }

  // R-AUTH-10, R-AUTH-11
  @Test func anAnswerIsKeptAndNoneIsNoAnswer() throws {
    for (answer, kept) in [
      (DialogAnswer.failed, AuthorizationStatus.notDetermined), (.deny, .denied), (.failed, .denied),
    ] {
      var session = try session()
      let prompts = try questions(session.start()).compactMap {
        if case .ask(let prompt, _, let dialog) = $0 {
          #expect(dialog.appText == "To test.")
          return prompt
        }
        return nil as LocationPromptID?
      }
      // Asked again after no answer, not after a no.
      #expect(prompts.count == (answer == .failed && kept == .denied ? 0 : 1))
      for prompt in prompts { _ = try session.handle(.answer(prompt, answer), at: .zero) }
      #expect(try store.read().apps == ["reader": kept])
    }
    // A reset is asked about while it runs, and an answer in the settings takes the question away.
    var session = try session()
    _ = try session.start()
    try store.update { $0.apps["reader"] = .notDetermined }
    let asked = try questions(move(&session, to: 500, minute: 1))
    guard case .ask(let prompt, _, _)? = asked.first else {
      Issue.record("not asked: \(asked)")
      return
    }
    #expect(try questions(move(&session, to: 500, minute: 2)) == [], "asked once")
    try store.update { $0.apps["reader"] = .allowed(.always) }
    let news = try session.handle(.answer(prompt, .deny), at: Moment.zero + .seconds(121))
    #expect(questions(news).contains(.dismiss(prompt)))
    #expect(try store.read().apps == ["reader": .allowed(.always)])
    _ = try move(&session, to: 500, minute: 3)
    #expect(try kinds(move(&session, to: 0, minute: 4)) == ["enter"])
  }

  @Test func settingsThatGoBadAllowNothingUntilTheyAreMended() throws {
    try store.update { $0.apps["reader"] = .allowed(.always) }
    var session = try session()
    _ = try session.start()
    _ = try move(&session, to: 500, minute: 1)
    try Data("{\"apps\":[]}".utf8).write(to: URL(fileURLWithPath: store.path))
    let news = try move(&session, to: 0, minute: 2)
    #expect(kinds(news) == [] && notes(news).count == 1)
    #expect(notes(news)[0].contains("'apps' is an array of 0") && notes(news)[0].contains(store.path))
    #expect(try move(&session, to: 0, minute: 3) == [], "said once")
    try Data("{\"apps\":{\"reader\":{\"authorization\":\"always\"}}}".utf8).write(
      to: URL(fileURLWithPath: store.path))
    #expect(try kinds(move(&session, to: 500, minute: 4)) == ["exit"])
    #expect(throws: (any Error).self, "a start with such settings") {
      try Data("{".utf8).write(to: URL(fileURLWithPath: store.path))
      var late = try self.session()
      _ = try late.start()
    }
  }
}
