import Foundation
import Opportune
import TestSupport
import Testing

@testable import OpportuneApps

extension Int32 {
  /// The socket that a monitor is to open.
  fileprivate func given() throws(PowerEvents.Refusal) -> Int32 { self }
}

@Suite(.bounded) struct PowerMonitorTests {
  /// A folder as `/sys/class/power_supply`, with a mains supply and a battery.
  private struct Supplies {
    let path: String
    init() throws {
      path = FileManager.default.temporaryDirectory.appendingPathComponent("power-\(UUID().uuidString)").path
      for (name, type) in [("AC", "Mains"), ("BAT0", "Battery")] {
        try FileManager.default.createDirectory(atPath: "\(path)/\(name)", withIntermediateDirectories: true)
        try write("type", of: name, type)
      }
      try set(.mains)
    }

    func set(_ supply: PowerSupply) throws {
      try write("online", of: "AC", supply == .mains ? "1" : "0")
      try write("status", of: "BAT0", supply == .mains ? "Charging" : "Discharging")
    }

    func remove() { try? FileManager.default.removeItem(atPath: path) }

    private func write(_ file: String, of name: String, _ text: String) throws {
      try "\(text)\n".write(toFile: "\(path)/\(name)/\(file)", atomically: true, encoding: .utf8)
    }
  }

  /// A monitor's end of messages, and the kernel's.
  private func sockets() throws -> (monitor: Int32, kernel: Int32) {
    try socketPair(SOCK_DGRAM)
  }

  private func message(_ subsystem: String) -> [UInt8] {
    Array("change@/devices/virtual/\(subsystem)/x\0ACTION=change\0SUBSYSTEM=\(subsystem)\0SEQNUM=7\0".utf8)
  }

  private func say(_ message: [UInt8], _ socket: Int32) {
    #expect(send(socket, message, message.count, 0) == message.count)
  }

  // R-PWR-01
  @Test func onlyMessagesAboutSuppliesCount() {
    #expect(PowerEvents.concernsPower(message("power_supply")))
    #expect(!PowerEvents.concernsPower(message("usb")))
    #expect(!PowerEvents.concernsPower(Array("libudev\0SUBSYSTEM=power_supply\0".utf8)))
    #expect(!PowerEvents.concernsPower([]))
    #expect(
      !PowerEvents.concernsPower(Array("change@/x\0XSUBSYSTEM=power_supply\0SUBSYSTEM=power_supply2".utf8)))
  }

  // R-PWR-01
  @Test(.timeLimit(.minutes(1))) func aChangeIsToldWhenTheKernelSaysSo() async throws {
    let supplies = try Supplies()
    defer { supplies.remove() }
    let (socket, kernel) = try sockets()
    let (seen, told) = AsyncStream.makeStream(of: PowerSupply.self)
    let monitor = PowerMonitor(SystemPower(path: supplies.path), events: socket.given) { told.yield($0) }
    #expect(monitor.refusal == nil)
    var changes = seen.makeAsyncIterator()
    #expect(await changes.next() == .mains)
    // Nothing is told while nothing has changed, nor of other devices: the next that comes is the battery.
    say(message("power_supply"), kernel)
    say(message("usb"), kernel)
    try supplies.set(.battery)
    say(message("power_supply"), kernel)
    #expect(await changes.next() == .battery)
    try supplies.set(.mains)
    monitor.look()
    #expect(await changes.next() == .mains)
    close(kernel)
  }

  // R-PWR-01
  @Test(.timeLimit(.minutes(1))) func theThreadEndsWithItsMonitor() throws {
    let (socket, kernel) = try sockets()
    do {
      let monitor = PowerMonitor(SystemPower(path: "/nonexistent"), events: socket.given) { _ in }
      #expect(monitor.refusal == nil)
    }
    // The thread closes the monitor's end; until then it takes what comes.
    let bytes = message("usb")
    while send(kernel, bytes, bytes.count, Int32(MSG_NOSIGNAL)) >= 0 || errno == EINTR {}
    #expect(errno == ECONNREFUSED || errno == ECONNRESET)
    close(kernel)
  }

  // R-PWR-01
  @Test(.timeLimit(.minutes(1))) func aRefusalIsSaidAndLooksGoOn() async throws {
    func refuse() throws(PowerEvents.Refusal) -> Int32 { throw PowerEvents.Refusal(code: EPERM) }
    let supplies = try Supplies()
    defer { supplies.remove() }
    let (seen, told) = AsyncStream.makeStream(of: PowerSupply.self)
    let monitor = PowerMonitor(SystemPower(path: supplies.path), events: refuse) { told.yield($0) }
    #expect(monitor.refusal == PowerEvents.Refusal(code: EPERM))
    try supplies.set(.battery)
    monitor.look()
    var changes = seen.makeAsyncIterator()
    #expect(await changes.next() == .mains)
    #expect(await changes.next() == .battery)
    let finding = PowerEvents.finding(open: refuse)
    #expect(finding.status == .degraded && finding.found.contains("Operation not permitted"))
    #expect(finding.cost != nil && finding.remedy != nil)
  }

  // R-PWR-01, R-PWR-04
  @Test(.timeLimit(.minutes(1))) func aHostFollowsPower() async throws {
    let supplies = try Supplies()
    defer { supplies.remove() }
    let (socket, kernel) = try sockets()
    let host = try patientHost { $0.maximumForeground = 2 }
    let monitor = host.followPower(SystemPower(path: supplies.path), events: socket.given)
    let events = await host.observe()
    let first = try await host.launch(Manifest(identifier: "first")) { _ in Silent() }
    let second = try await host.launch(Manifest(identifier: "second")) { _ in Silent() }
    for await event in events {
      if case .moved(_, .active, _) = event.action, event.app == second.id { break }
    }
    #expect(await host.state(of: first.id) == .inactive)
    let later = await host.observe()
    try supplies.set(.battery)
    say(message("power_supply"), kernel)
    for await event in later {
      if case .moved(_, .background, _) = event.action, event.app == first.id { break }
    }
    #expect(await host.state(of: second.id)?.isForeground == true)
    #expect(monitor.refusal == nil)
    for app in [first, second] { try await host.terminate(app.id) }
    close(kernel)
  }
}
