import COpportune
import Opportune
import SystemPackage

/// Figure 4: an echo server of 64 connections over loopback, alone and beside a background app that receives flat out.
extension IOBench {
  func measureEcho(_ report: inout IOBenchReport) async throws {
    report.notes.append("echo: SwiftNIO is no dependency of this package; that comparison is skipped here")
    var alone = 0.0
    for (mode, isLoaded) in [("alone", false), ("beside-background", true)] {
      let windows = try await repeats("echo, \(mode)") { try await echo(isLoaded) }
      guard !windows.isEmpty else { return }
      var result = IOResult(.echo, mode, load: "64-connections")
      result.latencyUs = .median(windows.map(\.latency))
      result.p99RangeUs = range(windows.map(\.latency.p99))
      result.operationsPerSecond = median(windows.map(\.rate))
      result.operationsRange = range(windows.map(\.rate))
      result.megabytesPerSecond = isLoaded ? median(windows.map(\.background)) : nil
      if !isLoaded { alone = result.latencyUs?.p99 ?? 0 }
      result.p99RatioToAlone = (result.latencyUs?.p99 ?? 0) / max(alone, 0.001)
      report.results.append(result)
    }
  }

  private struct Window {
    var latency: Percentiles
    var rate: Double
    var background: Double
  }

  private func echo(_ isLoaded: Bool) async throws -> Window {
    let scheduler = try Scheduler()
    let broker = try IOBroker()
    let foregroundApp = try scheduler.makeApp(named: "echo")
    let backgroundApp = try scheduler.makeApp(named: "download", band: .background)
    let foreground = try broker.attach(foregroundApp)
    let background = try broker.attach(backgroundApp)
    let listener = try await foreground.listen(on: .ipv4("127.0.0.1", port: 0))
    let address = try listener.address()
    foregroundApp.task {
      for try await connection in listener {
        foregroundApp.task {
          let buffer = try IOBuffer(count: 256)
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
    let download = isLoaded ? try await receiveFlatOut(foregroundApp, foreground, backgroundApp, background, end) : nil
    let clients = (0..<64).map { _ in
      foregroundApp.task {
        let socket = try await foreground.connect(to: address)
        let buffer = try IOBuffer(count: 64)
        var histogram = TimeHistogram()
        while true {
          let sent = opp_now_ns()
          try await foreground.send(socket, from: buffer)
          _ = try await foreground.receive(socket, into: buffer, untilFull: true)
          let now = opp_now_ns()
          if sent >= start { histogram.record(now - sent) }
          if now >= end { break }
        }
        try await foreground.close(socket)
        return histogram
      }
    }
    var all = TimeHistogram()
    for client in clients { all.add(try await client.value) }
    let bytes = try await download?.value ?? 0
    await broker.shutdown()
    try await scheduler.shutdown()
    return Window(
      latency: all.percentiles, rate: Double(all.count) / options.seconds,
      background: Double(bytes) / options.seconds / 1e6)
  }

  /// A sender that never rests, and a background app that receives what it sends.
  private func receiveFlatOut(
    _ senderApp: App, _ sender: AppIO, _ receiverApp: App, _ receiver: AppIO, _ end: UInt64
  ) async throws -> AppTask<Int> {
    let listener = try await sender.listen(on: .ipv4("127.0.0.1", port: 0))
    let address = try listener.address()
    receiverApp.task {
      let connection = try await listener.accept()
      let buffer = try IOBuffer(count: 256 << 10)
      while opp_now_ns() < end { try await sender.send(connection, from: buffer) }
      try await sender.close(connection)
      try await listener.close()
    }
    return receiverApp.task {
      let socket = try await receiver.connect(to: address)
      let buffer = try IOBuffer(count: 256 << 10)
      var total = 0
      while true {
        let count = try await receiver.receive(socket, into: buffer)
        if count == 0 { break }
        total += count
      }
      try await receiver.close(socket)
      return total
    }
  }
}
