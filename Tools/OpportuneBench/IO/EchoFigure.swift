import COpportune
import COpportuneBench
import Glibc
import Opportune
import OpportuneBase
import SystemPackage
import ToolSupport

/// Figure 4: echo servers and 64 connections over loopback, each with one message under way: ours alone, ours
/// beside a background app that receives flat out, and SwiftNIO's. The client is the same for all, in C.
extension IOBench {
  private static let connections: UInt32 = 64
  private static let messageSize: UInt32 = 64

  func measureEcho(_ report: inout IOBenchReport) async throws {
    if options.echoRival == nil {
      report.notes.append("echo: SwiftNIO is skipped; build it in bench/ and name it by --echo-rival")
    }
    var modes = ["alone", "beside-background"]
    var points = modes.map { mode in
      IOPoint(name: "echo, \(mode)") { try await echo(mode == "beside-background") }
    }
    if let program = options.echoRival {
      modes.insert("swift-nio", at: 0)
      points.insert(IOPoint(name: "echo, swift-nio", isRival: true) { try await echoOfRival(program) }, at: 0)
    }
    let windows = try await turns(&report, points)
    let rival = options.echoRival == nil ? nil : windows[0].map(\.rate)
    var alone = 0.0
    for (mode, windows) in zip(modes, windows) where !windows.isEmpty {
      var result = IOResult(.echo, mode, load: "64-connections")
      result.latencyUs = .median(windows.map(\.latency))
      result.p99RangeUs = range(windows.map(\.latency.p99))
      result.setRates(windows.map(\.rate), rival: mode == "swift-nio" ? nil : rival)
      if mode == "alone" { alone = result.latencyUs?.p99 ?? 0 }
      if mode != "swift-nio", alone > 0 { result.p99RatioToAlone = (result.latencyUs?.p99 ?? 0) / alone }
      if mode == "beside-background" { result.megabytesPerSecond = median(windows.map(\.background)) }
      report.results.append(result)
    }
  }

  private struct Window {
    var latency: Percentiles
    var rate: Double
    var background = 0.0
  }

  private func echo(_ isLoaded: Bool) async throws -> Window {
    let scheduler = try Scheduler()
    let broker = try IOBroker()
    let foregroundApp = try scheduler.makeApp(named: "echo")
    let backgroundApp = try scheduler.makeApp(named: "download", band: .background)
    let foreground = try broker.makeIO(for: foregroundApp)
    let background = try broker.makeIO(for: backgroundApp)
    let listener = try await foreground.listen(on: .ipv4("127.0.0.1", port: 0))
    guard case .ipv4(_, let port) = try listener.address() else { throw BenchError(.system, "no port") }
    foregroundApp.task {
      for try await connection in listener {
        foregroundApp.task {
          let buffer = try IOBuffer(count: 4096)
          while true {
            let count = try await foreground.receive(connection, into: buffer)
            if count == 0 { return try await foreground.close(connection) }
            try await foreground.send(connection, from: buffer, 0..<count)
          }
        }
      }
    }
    let start = opp_now_ns() + 100_000_000
    let end = start + windowNanoseconds
    let download =
      isLoaded
      ? try await receiveFlatOut(foregroundApp, foreground, backgroundApp, background, start, end) : nil
    var window = try await load(port, start, end)
    window.background = Double(try await download?.value ?? 0) / options.seconds / 1e6
    await broker.shutdown()
    try await scheduler.shutdown()
    return window
  }

  /// SwiftNIO's server: a program that prints its port, and ends with its input.
  private func echoOfRival(_ program: String) async throws -> Window {
    let (input, output) = (try FileDescriptor.pipe(), try FileDescriptor.pipe())
    let process = Result {
      try ChildProcess.start([program]) { actions in
        posix_spawn_file_actions_adddup2(&actions, input.readEnd.rawValue, 0)
        posix_spawn_file_actions_adddup2(&actions, output.writeEnd.rawValue, 1)
        for end in [input.writeEnd, output.readEnd] {
          posix_spawn_file_actions_addclose(&actions, end.rawValue)
        }
      }
    }
    try input.readEnd.close()
    try output.writeEnd.close()
    defer {
      try? output.readEnd.close()
      try? input.writeEnd.close()  // which ends it
      if let process = try? process.get() { ChildProcess.wait(for: process) }
    }
    _ = try process.get()
    var line = [UInt8](repeating: 0, count: 16)
    let count = try line.withUnsafeMutableBytes { try output.readEnd.read(into: $0) }
    let digits = String(decoding: line[0..<count], as: UTF8.self).prefix { $0.isNumber }
    guard let port = UInt16(digits) else { throw BenchError(.system, "\(program) prints no port") }
    let start = opp_now_ns() + 100_000_000
    return try await load(port, start, start + windowNanoseconds)
  }

  private func load(_ port: UInt16, _ start: UInt64, _ end: UInt64) async throws -> Window {
    let times = Times()
    let result: Int64 = try await withCheckedThrowingContinuation { continuation in
      do {
        _ = try SystemThread(named: "echo") {
          let count = opp_bench_echo(
            port, Self.connections, Self.messageSize, start, end,
            { Unmanaged<Times>.fromOpaque($0).takeUnretainedValue().histogram.record($1) },
            Unmanaged.passUnretained(times).toOpaque())
          continuation.resume(returning: count)
        }
      } catch {
        continuation.resume(throwing: error)
      }
    }
    guard result >= 0 else {
      throw BenchError.failed("the echo client failed", Int32(clamping: -result))
    }
    return Window(latency: times.histogram.percentiles, rate: Double(result) / options.seconds)
  }

  /// Written to by the client's thread, read when that has ended.
  private final class Times: @unchecked Sendable {
    var histogram = TimeHistogram()
  }

  /// A sender that never rests, and a background app that receives what it sends: how many bytes from `start`
  /// to `end`. What the kernel holds by then is thrown away: it is megabytes, and a window as small as
  /// background's lets 8 KiB through every 200 ms where segments are as large as over loopback.
  private func receiveFlatOut(
    _ senderApp: App, _ sender: AppIO, _ receiverApp: App, _ receiver: AppIO, _ start: UInt64, _ end: UInt64
  ) async throws -> AppTask<Int, any Error> {
    let listener = try await sender.listen(on: .ipv4("127.0.0.1", port: 0))
    let address = try listener.address()
    senderApp.task {
      let connection = try await listener.accept()
      try await listener.close()
      let buffer = try IOBuffer(count: 256 << 10)
      while opp_now_ns() < end { try await sender.send(connection, from: buffer) }
      try await sender.close(connection)
    }
    return receiverApp.task {
      let socket = try await receiver.connect(to: address)
      let buffer = try IOBuffer(count: 256 << 10)
      var total = 0
      do {
        var count = 1
        while count > 0 {
          let left = Duration.nanoseconds(max(0, Int64(end) - Int64(opp_now_ns())))
          count = try await receiver.receive(socket, into: buffer, within: left)
          if opp_now_ns() >= start { total += count }
        }
      } catch let error as IOError where error.code == .deadlineExceeded {}
      try await receiver.close(socket)
      return total
    }
  }
}
