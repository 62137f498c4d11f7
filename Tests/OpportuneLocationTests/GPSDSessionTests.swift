import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneLocation

/// The client of gpsd in virtual time.
@Suite(.bounded) struct GPSDSessionTests {
  private static let place =
    "{\"class\":\"TPV\",\"mode\":3,\"lat\":53.35,\"lon\":-6.26,\"epx\":9.8,\"epy\":4.9}\r\n"

  private func session() throws -> GPSDSession {
    var options = GPSDClient.Options()
    options.retry = .seconds(1)
    options.retryMax = .seconds(4)
    options.silence = .seconds(30)
    options.patience = .seconds(5)
    return try GPSDSession(options, at: .zero)
  }

  private func connected() throws -> GPSDSession {
    var session = try session()
    #expect(session.handle(.elapsed, at: .zero) == [.connect])
    #expect(session.handle(.connected, at: .zero) == [.send(GPSDSession.watch)])
    return session
  }

  private func fixes(_ effects: [GPSDSession.Effect]) -> [Fix] {
    effects.compactMap { if case .update(.fix(let fix)) = $0 { fix } else { nil } }
  }

  // R-LOC-08
  @Test func aReportBecomesAFixWithItsAccuracy() throws {
    var session = try connected()
    let effects = session.handle(.received(Array(Self.place.utf8)), at: .seconds(2))
    #expect(effects.first == .update(.available(true)))
    let fix = try #require(fixes(effects).first)
    #expect(fix.position == (try Coordinate(latitude: 53.35, longitude: -6.26)))
    #expect(abs(fix.accuracy.standardDeviation - 5) < 0.01, "95 % of 9.8 m to each side")
    #expect(fix.time == .seconds(2) && fix.source == .satellite && fix.altitude == nil)
    // The same again is no news of the source.
    #expect(session.handle(.received(Array(Self.place.utf8)), at: .seconds(3)).count == 1)
  }

  @Test(arguments: [
    ("\"eph\":12.24", 5.0), ("\"epx\":0", 5.0), ("\"mode\":2", 5.0), ("\"epx\":1e300,\"epy\":1", 1e7),
    ("\"epx\":0,\"epy\":0", 0.01),
  ])
  func accuracyIsWhatIsThere(field: String, metres: Double) throws {
    var session = try connected()
    let line = "{\"class\":\"TPV\",\"mode\":3,\"lat\":1,\"lon\":2,\(field)}\n".replacing(
      "\"mode\":3,", with: field.contains("mode") ? "" : "\"mode\":3,")
    let fix = try #require(fixes(session.handle(.received(Array(line.utf8)), at: .seconds(1))).first)
    #expect(abs(fix.accuracy.standardDeviation - metres) < metres / 100)
  }

  /// However the bytes are cut, the same lines come out.
  @Test func linesMayComeInPieces() throws {
    let bytes = Array((Self.place + Self.place).utf8)
    for cut in 0..<bytes.count {
      var session = try connected()
      var effects = session.handle(.received(Array(bytes[..<cut])), at: .seconds(1))
      effects += session.handle(.received(Array(bytes[cut...])), at: .seconds(1))
      #expect(fixes(effects).count == 2)
      #expect(session.garbage == 0)
    }
  }

  @Test func garbageIsLeftOutAndCounted() throws {
    var session = try connected()
    let lines = [
      "", "no json", "{}", "[1]", "{\"class\":7}", "{\"class\":\"TPV\",\"mode\":3,\"lat\":91,\"lon\":0}",
      "{\"class\":\"TPV\",\"mode\":3,\"lat\":0,\"lon\":0,\"speed\":-1}",
      "{\"class\":\"SKY\",\"satellites\":[]}",
      "{\"class\":\"TPV\",\"mode\":1}", "{\"class\":\"TPV\",\"mode\":3}", "\u{0}\u{1}",
    ]
    let effects = session.handle(.received(Array(lines.joined(separator: "\n").utf8) + [10]), at: .seconds(1))
    #expect(fixes(effects).isEmpty)
    #expect(session.garbage == 7)
    #expect(fixes(session.handle(.received(Array(Self.place.utf8)), at: .seconds(2))).count == 1)
  }

  /// A line without an end is no protocol, and takes no more memory.
  @Test func aLineWithoutEndEndsTheConnection() throws {
    var session = try connected()
    let part = [UInt8](repeating: 65, count: GPSDSession.lineMax)
    #expect(session.handle(.received(part), at: .seconds(1)) == [])
    #expect(session.handle(.received([65]), at: .seconds(1)) == [.close, .update(.available(false))])
    #expect(session.garbage == 1 && session.deadline == .seconds(2))
  }

  // R-LOC-07
  @Test func silenceIsNoticedAndTheConnectionMadeAgain() throws {
    var session = try connected()
    _ = session.handle(.received(Array(Self.place.utf8)), at: .seconds(1))
    #expect(session.deadline == .seconds(6), "the patience")
    #expect(session.handle(.elapsed, at: .seconds(5)) == [], "not yet")
    #expect(session.handle(.elapsed, at: .seconds(6)) == [.update(.available(false))])
    #expect(session.deadline == .seconds(31), "the silence")
    // Lines without a fix show that it lives.
    #expect(session.handle(.received(Array("{\"class\":\"TPV\",\"mode\":1}\n".utf8)), at: .seconds(20)) == [])
    #expect(session.deadline == .seconds(50))
    #expect(session.handle(.elapsed, at: .seconds(50)) == [.close])
    #expect(session.handle(.elapsed, at: .seconds(51)) == [.connect])
    #expect(session.handle(.connected, at: .seconds(51)) == [.send(GPSDSession.watch)])
    #expect(
      session.handle(.received(Array(Self.place.utf8)), at: .seconds(52)).first == .update(.available(true)))
  }

  @Test func attemptsBecomeRarerUntilOneSucceeds() throws {
    var session = try session()
    var moment = Moment.zero
    var pauses: [Duration] = []
    for _ in 0..<5 {
      #expect(session.handle(.elapsed, at: moment) == [.connect])
      _ = session.handle(.ended, at: moment)
      pauses.append(session.deadline - moment)
      moment = session.deadline
    }
    #expect(pauses == [1, 2, 4, 4, 4].map { .seconds($0) })
    _ = session.handle(.elapsed, at: moment)
    _ = session.handle(.connected, at: moment)
    // What lets one connect and says nothing is no gpsd.
    _ = session.handle(.ended, at: moment)
    #expect(session.deadline - moment == .seconds(4))
    _ = session.handle(.elapsed, at: session.deadline)
    _ = session.handle(.connected, at: moment)
    _ = session.handle(.received(Array("{\"class\":\"VERSION\"}\n".utf8)), at: moment)
    _ = session.handle(.ended, at: moment)
    #expect(session.deadline - moment == .seconds(1))
  }

  @Test func optionsAreChecked() {
    let wrong: [(inout GPSDClient.Options) -> Void] = [
      { $0.silence = .zero }, { $0.patience = .seconds(100_000) }, { $0.retry = .zero },
      { $0.retryMax = .milliseconds(1) },
      { $0.deviation = .nan },
    ]
    for change in wrong {
      var options = GPSDClient.Options()
      change(&options)
      #expect(throws: LocationError.self) { try GPSDSession(options, at: .zero) }
    }
  }
}
