import Foundation
import OpportuneApps
import OpportuneLocation
import TestSupport
import Testing

@testable import OpportuneCommand

/// A terminal simulated by pipes, through which the test reads and answers.
@Suite(.bounded, .timeLimit(.minutes(1))) struct TerminalLocationInterfaceTests {
  private let input = Pipe()
  private let output = Pipe()

  private func interface(patience: Duration = .seconds(50)) -> TerminalLocationInterface {
    TerminalLocationInterface(
      input: input.fileHandleForReading.fileDescriptor, output: output.fileHandleForWriting.fileDescriptor,
      patience: patience)
  }

  private func type(_ text: String) { input.fileHandleForWriting.write(Data(text.utf8)) }

  /// What was printed, to its end.
  private func printed() -> String {
    try? output.fileHandleForWriting.close()
    return String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
  }

  /// Reads what is printed until a text is there, so often.
  ///
  /// - Returns: all that was read.
  @discardableResult
  private func waitFor(_ text: String, times: Int = 1) -> String {
    var seen = ""
    while seen.components(separatedBy: text).count <= times {
      let data = output.fileHandleForReading.availableData
      guard !data.isEmpty else {
        Issue.record("'\(text)' was not printed")
        break
      }
      seen += String(decoding: data, as: UTF8.self)
    }
    return seen
  }

  /// Dialogs and alerts as the location system makes them.
  private func dialogs() throws -> (ask: LocationDialog, reminder: LocationDialog, alert: LocationAlert) {
    var policy = LocationPolicy()
    policy.reminder = .zero
    policy.alertsAlways = true
    var system = try LocationSystem(policy: policy)
    let app = AppID(0)
    system.register(
      app,
      Manifest(identifier: "Maps", usageDescriptions: [AuthorizationType.always.usageKey: "To remind you"]))
    var effects = try system.handle(.app(app, .moved(.background)), at: .zero)
    effects += try system.handle(.app(app, .requestAuthorization(.always)), at: .zero)
    effects += try system.handle(.app(app, .setAuthorization(.allowed(.always))), at: .zero)
    let home = try Coordinate(latitude: 50, longitude: 8)
    let fence = Fence(try .circle(home, radius: 50), reportsInitialState: true)
    let request = LocationRequest.region(fence, text: "You've arrived")
    effects += try system.handle(.app(app, .start(request)), at: .zero)
    effects += try system.handle(.app(app, .start(.significantChange(distance: 10))), at: .zero)
    for minute in 1...4 {
      let moment = Moment.zero + .seconds(60 * minute)
      let place = try Coordinate(latitude: 50 + Double(minute % 2) / 100, longitude: 8)
      let fix = try Fix(place, accuracy: Accuracy(standardDeviation: 1), time: moment)
      effects += try system.handle(.fix(fix), at: moment)
    }
    var asked: [LocationDialog] = []
    for case .ask(_, _, let dialog) in effects { asked.append(dialog) }
    var alerts: [LocationAlert] = []
    for case .alert(_, _, let alert) in effects { alerts.append(alert) }
    return (
      try #require(asked.first { $0.kind == .authorization }),
      try #require(asked.first { $0.kind == .reminder }),
      try #require(alerts.first)
    )
  }

  // R-AUTH-07, R-AUTH-11
  @Test(arguments: [
    ("1\n", DialogAnswer.deny), ("2\n", .allow), ("Don't Allow\n", .deny), (" allow \n", .allow),
    ("yes\n\n2\n", .allow), ("yes\n\n3\n2\n", .failed), ("2", .failed), ("", .failed),
  ]) func aDialogSaysBothTextsAndTakesOneOfTwoAnswers(typed: String, answer: DialogAnswer) async throws {
    type(typed)
    try input.fileHandleForWriting.close()
    #expect(await interface().ask(try dialogs().ask) == answer)
    let text = printed()
    #expect(
      text.contains("Allow \"Maps\" to access your location even when you are not using it?\nTo remind you\n")
    )
    #expect(text.contains("  1  Don't Allow\n  2  Allow\n"))
    #expect(text.contains("Expected 1 or 2.") == typed.hasPrefix("yes"))
    #expect(text.contains("ot answered") == (answer == .failed))
  }

  /// `yes |`, which has no end.
  // R-AUTH-07, R-AUTH-19
  @Test func whoNeverSaysWhatIsExpectedIsNotAskedForEver() async throws {
    type(String(repeating: "y\n", count: 8))
    let (interface, dialogs) = (interface(patience: .seconds(20)), try dialogs())
    #expect(await interface.ask(dialogs.ask) == .failed)
    #expect(await interface.alert(dialogs.alert) == nil)
    let text = printed()
    let end = "None of 3 lines was an answer: it counts as not answered, and nothing is allowed.\n"
    #expect(text.components(separatedBy: "Expected 1 or 2.\n").count == 7 && text.hasSuffix(end), "\(text)")
    #expect(text.components(separatedBy: end).count == 3)
  }

  // R-AUTH-09
  @Test func aReminderHasItsOwnButtons() async throws {
    type("continue\n1\n")
    let (interface, reminder) = (interface(), try dialogs().reminder)
    #expect(await interface.ask(reminder) == .allow)
    #expect(await interface.ask(reminder) == .deny)
    let text = printed()
    #expect(text.contains("\"Maps\" has been using your location in the background."))
    #expect(text.contains("To remind you\n") && text.contains("  1  Don't Allow\n  2  Continue\n"))
  }

  // R-AUTH-19, R-AUTH-20
  @Test func anAlertIsClosedOrOpenedOrNeither() async throws {
    type("1\nopen\n")
    try input.fileHandleForWriting.close()
    let (interface, alert) = (interface(), try dialogs().alert)
    #expect(await interface.alert(alert) == .close)
    #expect(await interface.alert(alert) == .open)
    #expect(await interface.alert(alert) == nil)
    let text = printed()
    #expect(
      text.contains("Maps: You've arrived\nIf you open \"Maps\", it is told that you crossed this border.\n"))
    #expect(text.contains("  1  Close\n  2  Open\n"))
  }

  @Test func noAnswerInTimeIsNone() async throws {
    let interface = interface(patience: .milliseconds(1))
    #expect(await interface.ask(try dialogs().ask) == .failed)
    #expect(await interface.alert(try dialogs().alert) == nil)
    #expect(printed().contains("Not answered."))
  }

  @Test func aQuestionThatIsTakenAwayEndsAndLeavesTheNextItsAnswer() async throws {
    let (interface, dialogs) = (interface(), try dialogs())
    let first = Task { await interface.ask(dialogs.ask) }
    waitFor("2  Allow\n> ")
    let second = Task { await interface.alert(dialogs.alert) }
    // One after the other: it does not come in between, though it could.
    for _ in 0..<2 {
      type("what\n")
      #expect(!waitFor("Expected 1 or 2.\n").contains("You've"))
    }
    first.cancel()
    #expect(await first.value == .failed)
    #expect(waitFor("2  Open\n> ").contains("No longer asked."))
    type("2\n")
    #expect(await second.value == .open)
  }

  /// What a person typed before the question was there was meant for something else.
  @Test func onATerminalOnlyWhatIsTypedAfterTheQuestionAnswersIt() async throws {
    let (person, end) = try terminal()
    defer { for descriptor in [person, end] { close(descriptor) } }
    _ = write(person, "2\n", 2)
    // It stands there, as a line.
    var typed = pollfd(fd: end, events: Int16(POLLIN), revents: 0)
    try #require(poll(&typed, 1, 20_000) == 1)
    let interface = TerminalLocationInterface(
      input: end, output: output.fileHandleForWriting.fileDescriptor, patience: .seconds(50))
    let ask = try dialogs().ask
    let answer = Task { await interface.ask(ask) }
    waitFor("2  Allow\n> ")
    _ = write(person, "1\n", 2)
    #expect(await answer.value == .deny)
  }

  /// A pseudo-terminal: the person's end, and the program's.
  private func terminal() throws -> (person: Int32, end: Int32) {
    let person = open("/dev/ptmx", O_RDWR | O_NOCTTY)
    var isLocked: CInt = 0
    let (setLock, getPeer) = (UInt(0x4004_5431), UInt(0x5441))
    let end = ioctl(person, setLock, &isLocked) == 0 ? ioctl(person, getPeer, O_RDWR | O_NOCTTY) : -1
    try #require(person >= 0 && end >= 0)
    return (person, end)
  }

  // R-AUTH-22
  @Test func theIndicatorIsSolidOrHollow() async {
    let interface = interface()
    for indicator in [LocationIndicator.hollow, .solid, .none] {
      await interface.show(indicator, app: "Maps")
    }
    #expect(printed() == "○ Maps waits for crossings\n● Maps gets locations\n- Maps gets no location\n")
  }

  // R-AUTH-23
  @Test func aBannerIsSelectedByALine() async {
    let interface = interface()
    let banner = Task { await interface.offerReturn(to: "Maps") }
    waitFor("↩ Maps is using your location: \"return\" brings it back\n")
    type("what\n")
    waitFor("Expected return.\n")
    type(" Return\n")
    #expect(await banner.value)
  }

  // R-AUTH-23
  @Test func aBannerIsGoneWhenTrackingEnds() async throws {
    let interface = interface()
    let banner = Task { await interface.offerReturn(to: "Maps") }
    waitFor("↩ Maps")
    banner.cancel()
    #expect(await banner.value == false)
    waitFor("- no return to Maps\n")
    // What is typed then is for the next question.
    type("2\n")
    #expect(await interface.ask(try dialogs().ask) == .allow)
    // Nothing can be selected any more.
    try input.fileHandleForWriting.close()
    #expect(await interface.offerReturn(to: "Maps") == false)
    #expect(await interface.offerReturn(to: "Maps") == false)
  }

  // R-AUTH-23
  @Test func aQuestionComesBeforeABannerAndTheBannerStays() async throws {
    let (interface, dialogs) = (interface(), try dialogs())
    let banners = ["Maps", "Runs"].map { app in Task { await interface.offerReturn(to: app) } }
    waitFor("↩ ", times: 2)
    let question = Task { await interface.alert(dialogs.alert) }
    waitFor("2  Open\n> ")
    type("return\n2\n")
    #expect(await question.value == .open)
    type("return runs\nreturn\n")
    for banner in banners { #expect(await banner.value) }
    #expect(printed().contains("Expected 1 or 2.\n"))
  }

  @Test func whatAnAppIsCalledCannotSteerTheTerminal() async {
    let interface = interface()
    await interface.show(.solid, app: "Ma\u{1B}[2Jps\n\u{202E}x")
    #expect(printed() == #"● Ma\u{1B}[2Jps\n\u{202E}x gets locations"# + "\n")
  }
}
