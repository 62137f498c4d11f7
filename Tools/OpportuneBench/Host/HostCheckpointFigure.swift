import Foundation
import OpportuneBase
import OpportuneHost

extension HostBench {
  private static let checkpoints = 6

  /// The same of programs that CRIU has written to files and makes again: the host starts them itself, by
  /// manifests, as it takes no checkpoint of what a shell waits for.
  ///
  /// - Parameter criu: the file of the command.
  func measureCheckpoints(_ folder: String, by criu: String) throws -> [HostBenchReport.Result] {
    let scratch = folder + "/checkpoints"
    let manifests = scratch + "/apps"
    try FileManager.default.createDirectory(atPath: manifests, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: scratch) }
    let daemon = try HostDaemon(in: scratch, options: ["--criu", criu, "--manifests", manifests])
    defer { daemon.stop() }
    progress("checkpoints: starting two programs of 256 MB")
    let names = ["three", "four"]
    defer { for name in names { _ = try? daemon.ask(.terminate, name) } }
    for name in names {
      let manifest: [String: Any] = [
        "CFBundleIdentifier": name, "OpportuneCommand": RedisServer.words(in: scratch, named: name),
      ]
      try JSONSerialization.data(withJSONObject: manifest).write(
        to: URL(filePath: "\(manifests)/\(name).json"))
      try daemon.ask(.front, name)
      try RedisServer.waitUntilUp(
        RedisServer.socket(in: scratch, named: name), keys: Self.keysOfSwitched, log: daemon.log)
    }
    progress("checkpoints: in files")
    var written: [Double] = []
    var returned: [Double] = []
    var answered: [Double] = []
    for number in 0..<Self.checkpoints where !isInterrupted() {
      let name = names[number % 2]
      let asked = SystemClock.now()
      try daemon.makeCheckpoint(name)
      written.append(Double(elapsed(from: asked, to: SystemClock.now())) / 1000)
      let times = try daemon.bringForward(
        name, answering: RedisServer.socket(in: scratch, named: name), number)
      returned.append(times.returned)
      answered.append(times.answered)
    }
    return [
      .init("switches", "checkpoint: until it is made", "us", written),
      .init("switches", "checkpoint: in front", "us", returned),
      .init("switches", "checkpoint: first answer", "us", answered),
    ].filter { $0.samples > 0 }
  }
}

extension HostDaemon {
  /// Hibernates an app, and waits until it is in files.
  fileprivate func makeCheckpoint(_ name: String) throws {
    while let wait = try ask(.hibernate, name).wait {
      SystemClock.sleep(until: SystemClock.now() + Nanoseconds(wait * 1e9))
    }
    let app = try ask(.apps).apps?.first { $0.id == name }
    guard app?.hibernatedBy == .checkpoint else {
      let why = app?.notes.first { $0.hasPrefix("hibernated: ") } ?? "it is no app"
      throw BenchError(.unavailable, "no checkpoint of '\(name)' was made: \(why)")
    }
  }
}
