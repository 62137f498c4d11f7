import Glibc
import OpportuneBase

extension HostBench {
  /// Keys of each of the two programs that are switched between: 256 MB.
  static let keysOfSwitched = 262_144
  /// Where a program is that is brought to the front.
  private enum Place: String, CaseIterable {
    case suspended, hibernated
    case background = "in background"

    var switches: Int { self == .hibernated ? 6 : 50 }
  }

  /// From the command that brings a program of 256 MB to the front until its first answer.
  func measureSwitches(_ folder: String) throws -> [HostBenchReport.Result] {
    let scratch = folder + "/switches"
    guard mkdir(scratch, 0o755) == 0 else { throw BenchError.failed("'\(scratch)' was not made") }
    defer { Self.empty(scratch) }
    progress("switches: starting two programs of 256 MB")
    let daemon = try HostDaemon(in: scratch)
    defer { daemon.stop() }
    let names = ["one", "two"]
    var servers: [RedisServer] = []
    defer { for server in servers { server.stop() } }
    for name in names {
      servers.append(
        try RedisServer(
          daemon.runs(name, inFront: true), in: scratch, named: name, keys: Self.keysOfSwitched))
    }
    var results: [HostBenchReport.Result] = []
    for place in Place.allCases where !isInterrupted() {
      progress("switches: \(place.rawValue)")
      var returned: [Double] = []
      var answered: [Double] = []
      var left: [Double] = []
      for number in 0..<place.switches where !isInterrupted() {
        let index = number % 2
        switch place {
        case .suspended: try daemon.suspend(names[index])
        case .hibernated: left.append(Double(try daemon.hibernate(names[index])) / 1e6)
        case .background: break
        }
        let times = try daemon.bringForward(names[index], answering: servers[index].socket, number)
        returned.append(times.returned)
        answered.append(times.answered)
      }
      results.append(.init("switches", "\(place.rawValue): in front", "us", returned))
      results.append(.init("switches", "\(place.rawValue): first answer", "us", answered))
      results.append(.init("switches", "\(place.rawValue): in main memory", "MB", left))
    }
    progress("switches: started anew")
    try servers[0].save()
    var anew: [Double] = []
    for _ in 0..<min(5, options.repeats) where !isInterrupted() {
      servers.removeFirst().stop()
      let begin = SystemClock.now()
      servers.insert(
        try RedisServer(in: scratch, named: names[0], keys: Self.keysOfSwitched, restores: true), at: 0)
      anew.append(Double(elapsed(from: begin, to: SystemClock.now())) / 1000)
    }
    results.append(.init("switches", "started anew, data from a file: first answer", "us", anew))
    return results.filter { $0.samples > 0 }
  }
}

extension HostDaemon {
  /// Brings an app forward that is a server, and asks it for a key.
  ///
  /// - Returns: microseconds until it was in front, and until its answer.
  func bringForward(
    _ name: String, answering socket: String, _ key: Int
  ) throws -> (returned: Double, answered: Double) {
    let begin = SystemClock.now()
    try ask(.front, name)
    let returned = Double(elapsed(from: begin, to: SystemClock.now())) / 1000
    guard try RedisConnection(socket).ask("GET key:\(key)")?.hasPrefix("$") == true else {
      throw BenchError(.workLost, "'\(name)' came to the front and does not answer")
    }
    return (returned, Double(elapsed(from: begin, to: SystemClock.now())) / 1000)
  }
}
