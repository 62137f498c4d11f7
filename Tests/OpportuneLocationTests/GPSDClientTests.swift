import Foundation
import OpportuneApps
import OpportuneIO
import OpportuneTraces
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneLocation

/// The client with servers that behave, stop and return; and with a real gpsd.
@Suite(.bounded, .timeLimit(.minutes(2)), .serialized) struct GPSDClientTests {
  private func quick() -> GPSDClient.Options {
    var options = GPSDClient.Options()
    options.retry = .milliseconds(10)
    options.retryMax = .milliseconds(100)
    // Also what a loaded machine has for an answer.
    options.silence = .seconds(3)
    options.patience = .seconds(3)
    return options
  }

  private func send(_ text: String, to socket: FileDescriptor, _ io: AppIO) async throws {
    let bytes = Array(text.utf8)
    try await io.send(socket, from: IOBuffer(copying: bytes))
  }

  private func place(_ latitude: Double) -> String {
    "{\"class\":\"TPV\",\"mode\":2,\"lat\":\(latitude),\"lon\":0}\n"
  }

  // R-LOC-07
  @Test func aServerThatGoesAndComesBackIsFollowed() async throws {
    let broker = try IOBroker()
    let (server, client) = (try broker.makeApp(named: "server"), try broker.makeApp(named: "client"))
    let listener = try await server.listen(on: .ipv4("127.0.0.1", port: 0))
    var updates = try GPSDClient(client, address: listener.address(), options: quick()).updates()
      .makeAsyncIterator()
    for round in 0..<3 {
      let socket = try await listener.accept()
      let asked = try IOBuffer(count: GPSDSession.watch.count)
      _ = try await server.receive(socket, into: asked, untilFull: true)
      #expect(try asked.bytes() == GPSDSession.watch)
      try await send("garbage\n" + place(Double(round)), to: socket, server)
      #expect(await updates.next() == .available(true))
      guard case .fix(let fix)? = await updates.next() else {
        Issue.record("no fix in round \(round)")
        break
      }
      #expect(fix.position == (try Coordinate(latitude: Double(round), longitude: 0)))
      // It closes; or, the last time, says nothing any more.
      if round < 1 { try await server.close(socket) }
      #expect(await updates.next() == .available(false))
    }
    await broker.shutdown()
  }

  /// Debian's gpsd, fed over UDP with what a receiver said on a drive, or with made sentences where that is
  /// not at hand; ended and started again.
  // R-LOC-08
  @Test(
    .enabled(
      if: FileManager.default.isExecutableFile(atPath: "/usr/sbin/gpsd"),
      "Debian's package gpsd is not installed"))
  func theRealOneIsUnderstood() async throws {
    let broker = try IOBroker()
    let io = try broker.makeApp(named: "gpsd")
    // Ports that were free a moment ago.
    let listener = try await io.listen(on: .ipv4("127.0.0.1", port: 0))
    let feed = try await io.datagramSocket(on: .ipv4("127.0.0.1", port: 0))
    guard case .ipv4(_, let port) = try listener.address(),
      case .ipv4(_, let input) = try io.address(of: feed)
    else {
      Issue.record("no ports")
      return
    }
    try await listener.close()
    try await io.close(feed)
    let sender = try await io.datagramSocket(on: .ipv4("127.0.0.1", port: 0))
    var options = quick()
    options.silence = .seconds(30)
    options.patience = .seconds(30)
    var updates = try GPSDClient(io, address: .ipv4("127.0.0.1", port: port), options: options).updates()
      .makeAsyncIterator()
    let log = try recorded()
    let way = log.isEmpty ? [] : try LocationTrace.read(Data(log.joined().joined().utf8)).fixes
    for _ in 0..<2 {
      let daemon = Process(["/usr/sbin/gpsd", "-N", "-n", "-S", "\(port)", "udp://127.0.0.1:\(input)"])
      daemon.standardError = FileHandle.nullDevice
      try daemon.run()
      // Not a signal that can be blocked: the child has the mask of the thread that makes it.
      defer { kill(daemon.processIdentifier, SIGKILL) }
      // Sentences until it has understood some.
      let feeding = Task {
        for second in 0..<3600 {
          for sentence in log.isEmpty ? nmea(second: second) : log[second % log.count] {
            let bytes = Array(sentence.utf8)
            try? await io.send(sender, from: IOBuffer(copying: bytes), to: .ipv4("127.0.0.1", port: input))
          }
          try await Task.sleep(for: .milliseconds(50))
        }
      }
      var seen: Fix?
      while seen == nil, let update = await updates.next() {
        if case .fix(let fix) = update { seen = fix }
      }
      feeding.cancel()
      let fix = try #require(seen)
      if log.isEmpty {
        #expect(fix.position.latitude > 48.1 && fix.position.latitude < 48.2)
        #expect(abs(fix.position.longitude - (11 + 31.0 / 60)) < 1e-6)
      } else {
        let nearest = way.map { Ellipsoid.distance($0.position, fix.position) }.min()
        #expect(try #require(nearest) < 0.01, "it is one of the recorded positions, as we read them")
      }
      kill(daemon.processIdentifier, SIGKILL)
      daemon.waitUntilExit()
      while case .fix? = await updates.next() {}
    }
    await broker.shutdown()
  }

  /// The sentences of `gnss-android`, those of each second together; none where that is not beside the
  /// project.
  private func recorded() throws -> [[String]] {
    guard TestData.has("gnss-android") else { return [] }
    let name = "gnss-android/MTV.Local1.ublox-F9K.20200206-181434.first-half.nmea.gz"
    let lines = String(decoding: try TestData.gunzipped(name), as: UTF8.self).split(
      whereSeparator: \.isNewline)
    return lines.reduce(into: []) { seconds, line in
      if seconds.isEmpty || line.dropFirst(3).hasPrefix("RMC") { seconds.append([]) }
      seconds[seconds.count - 1].append(line + "\r\n")
    }
  }

  /// A receiver that goes north, a sentence of each kind a second.
  private func nmea(second: Int) -> [String] {
    let time = String(format: "12%02d%02d.00", second / 60, second % 60)
    let place = String(format: "%09.4f,N,01131.0000,E", 4807 + Double(second) / 1000)
    return [
      "GPRMC,\(time),A,\(place),5.0,0.0,070220,,,A", "GPGGA,\(time),\(place),1,08,0.9,545.4,M,46.9,M,,",
    ].map {
      String(format: "$%@*%02X\r\n", $0, $0.utf8.reduce(0, ^))
    }
  }
}
