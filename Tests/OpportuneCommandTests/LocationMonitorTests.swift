import Foundation
import Opportune
import OpportuneLocation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneCommand

/// `opportune location monitor` as a process, with a gpsd that the test simulates.
@Suite(.bounded, .timeLimit(.minutes(2)), .serialized) struct LocationMonitorTests {
  private let fences = 300
  /// Milliseconds between two fixes.
  private let pace: Int32 = 50

  private func report(metresNorth: Double) -> [UInt8] {
    let latitude = 50 + metresNorth / 111_229
    return Array("{\"class\":\"TPV\",\"mode\":2,\"lat\":\(latitude),\"lon\":8,\"epx\":1,\"epy\":1}\n".utf8)
  }

  private func send(_ bytes: [UInt8], to socket: FileDescriptor, _ io: AppIO) async throws {
    let buffer = try IOBuffer(count: bytes.count)
    try buffer.withBytes { $0.copyBytes(from: bytes) }
    try await io.send(socket, from: buffer)
  }

  /// The reader, which stands for a host that is stopped, reads nothing until all has happened. More is said
  /// than a pipe holds, so what is not read must wait in the process, which sees fixes all the same.
  // R-LOC-15
  @Test func crossingsWaitForAReaderThatHasStopped() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "opportune-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(at: folder) }
    let features = (0..<fences).map {
      "{\"type\":\"Feature\",\"geometry\":{\"type\":\"Point\",\"coordinates\":[8,50]},\"properties\":{\"name\":\"fence \($0)\",\"radius\":50}}"
    }
    let file = folder.appending(path: "fences.geojson").path
    try "{\"type\":\"FeatureCollection\",\"features\":[\(features.joined(separator: ","))]}".write(
      toFile: file, atomically: true, encoding: .utf8)
    let broker = try IOBroker()
    let io = try broker.makeApp(named: "gpsd")
    let listener = try await io.listen(on: .ipv4("127.0.0.1", port: 0))
    guard case .ipv4(_, let port) = try listener.address() else {
      Issue.record("no port")
      return
    }
    let process = Process([
      try builtProgram(), "location", "monitor", "--fences", file, "--gpsd", "127.0.0.1:\(port)",
      "--confidence", "0.7", "--json",
    ])
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardError = FileHandle.nullDevice
    let setPipeSize: Int32 = 1031
    #expect(fcntl(pipe.fileHandleForWriting.fileDescriptor, setPipeSize, 4096) == 4096)
    try process.run()
    defer { kill(process.processIdentifier, SIGKILL) }

    let socket = try await listener.accept()
    try await send(report(metresNorth: 150), to: socket, io)
    // Fixes count by when they come, so one place is told again and again, until the first crossings stand in
    // the pipe.
    var polled = pollfd(fd: pipe.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
    var sent = 0
    while poll(&polled, 1, pace) == 0 {
      try await send(report(metresNorth: 0), to: socket, io)
      sent += 1
      try #require(sent < 1000, "no crossing stands in the pipe")
    }
    // Going takes no longer than coming, on a machine that is not slower by then. Nobody can see that it was
    // told: twice as many are enough, and two seconds.
    for _ in 0..<max(2 * sent, 40) {
      try await send(report(metresNorth: 150), to: socket, io)
      try await Task.sleep(for: .milliseconds(pace))
    }
    try await io.close(socket)
    // It has seen the end of the connection, so the fixes before it as well.
    _ = try await listener.accept(within: .seconds(30))

    var text = ""
    while text.split(separator: "\n").count < 2 * fences {
      // Never without end: what is not there within the while is missing.
      try #require(
        poll(&polled, 1, 20_000) == 1, "\(text.split(separator: "\n").count) crossings, and no more come")
      let data = pipe.fileHandleForReading.availableData
      try #require(!data.isEmpty, "the process ended after \(text.count) bytes")
      text += String(decoding: data, as: UTF8.self)
    }
    let crossings = try text.split(separator: "\n").map {
      try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
    }
    for (kind, part) in [("enter", crossings.prefix(fences)), ("exit", crossings.suffix(fences))] {
      #expect(part.allSatisfy { $0["kind"] as? String == kind })
      #expect(Set(part.compactMap { $0["fence"] as? String }).count == fences, "each of them once")
    }
    #expect(crossings.allSatisfy { abs(($0["at"] as? Double ?? 0) - Date().timeIntervalSince1970) < 120 })
    await broker.shutdown()
  }

  /// In live time: the device comes a second and a half after the start.
  // R-LOC-08
  @Test func aRecordedTrackIsASourceAndItsEndTheEnd() throws {
    let folder = try Folder()
    let home = "\"geometry\":{\"type\":\"Point\",\"coordinates\":[8,50]}"
    let fence = "{\"type\":\"Feature\",\(home),\"properties\":{\"name\":\"home\",\"radius\":50}}"
    let track = "timestamp,latitude,longitude,accuracy\n1581041700,50.00126,8,2\n1581041701.5,50,8,2\n"
    let run = try Spawned([
      "location", "monitor", "--fences", try folder.file("fences.geojson", fence.utf8), "--track",
      try folder.file("track.csv", track.utf8), "--confidence", "0.7", "--json",
    ])
    #expect(run.status == 0 && run.errors.contains("track.csv' gives fixes"), "\(run.errors)")
    #expect(run.output.hasPrefix("{\"fence\":\"home\",\"kind\":\"enter\",\"at\":"), "\(run.output)")
  }

  /// Standard input is no terminal, so it asks where that is said.
  // R-AUTH-07, R-AUTH-11
  @Test func theUserIsAskedOnTheTerminalAndTheAnswerIsKept() throws {
    let folder = try Folder()
    let home = "\"geometry\":{\"type\":\"Point\",\"coordinates\":[8,50]}"
    let fence = "{\"type\":\"Feature\",\(home),\"properties\":{\"radius\":50}}"
    let (fences, settings) = (try folder.file("fences.geojson", fence.utf8), folder.path("location.json"))
    for (option, heard, kept) in [
      ("--no-ask", "nobody is there to ask: Allow \"shops\"", AuthorizationStatus.notDetermined),
      ("--ask", "○ shops waits for crossings", .allowed(.always)),
    ] {
      // Nothing listens there: it waits.
      let process = Process([
        try builtProgram(), "location", "monitor", "--fences", fences, "--gpsd", "127.0.0.1:1", "--settings",
        settings, "--app", "shops", option,
      ])
      let (input, errors) = (Pipe(), Pipe())
      process.standardInput = input
      process.standardOutput = FileHandle.nullDevice
      process.standardError = errors
      try process.run()
      defer { kill(process.processIdentifier, SIGKILL) }
      input.fileHandleForWriting.write(Data("2\n".utf8))
      var text = ""
      while !text.contains(heard) {
        let data = errors.fileHandleForReading.availableData
        try #require(!data.isEmpty, "the process ended after: \(text)")
        text += String(decoding: data, as: UTF8.self)
      }
      #expect(text.contains("1  Don't Allow") == (option == "--ask"), "\(text)")
      #expect(try LocationSettingsFile(settings).read().apps == ["shops": kept])
    }
  }

  @Test(arguments: [
    (["--ask"], "--ask is not expected"), (["--no-ask"], "it goes with --settings"),
    (["--settings", "s.json", "--patience", "0"], "--patience is 0.0, expected 1.0 to 86400.0"),
  ]) func aWrongOptionIsRefused(options: [String], part: String) throws {
    let error = #expect(throws: (any Error).self) {
      try LocationMonitorCommand.parse(["--fences", "f.geojson"] + options)
    }
    let message = LocationMonitorCommand.message(for: try #require(error))
    #expect(message.contains(part), "\(message)")
  }

  @Test(arguments: [
    "", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", "localhost:2947", "[::1:2947", "::1", "[]:1",
  ])
  func aWrongAddressIsRefused(address: String) {
    #expect(throws: (any Error).self) {
      try LocationMonitorCommand.parse(["--fences", "f.geojson", "--gpsd", address])
    }
  }

  @Test(arguments: ["127.0.0.1:2947", "[::1]:2947"]) func anAddressMayBeOfEitherKind(address: String) throws {
    _ = try LocationMonitorCommand.parse(["--fences", "f.geojson", "--gpsd", address])
  }
}
