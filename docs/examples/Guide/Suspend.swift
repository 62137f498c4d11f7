import Foundation
import Opportune

/// Notes that fit in a file, and a drawing that is written to the store as it is in memory.
final class Notes: HibernatingApp, Sendable {
  let lines: Published<[String]>
  let drawing: MemoryBlock?
  init(_ lines: Published<[String]>, _ memory: AppMemory) {
    self.lines = lines
    drawing = try? memory.allocate(bytes: 4 << 20)
  }

  func didEnterBackground() async { print("notes: in background, saves") }
  func handOver() throws -> HandedState {  // nothing of the app runs now
    print("notes: hands over")
    defer { lines.publish([]) }
    return try HandedState(encoding: lines.value, memory: drawing.map { [HeldMemory($0)] } ?? [])
  }
  func takeOver(_ state: HandedState) throws { lines.publish(try state.decoded()) }
}

struct Game: AppDelegate { let level: MemoryBlock? }

func suspend() async throws {
  let path = FileManager.default.temporaryDirectory.appending(path: "guide-\(UUID()).store").path
  defer { try? FileManager.default.removeItem(atPath: path) }
  let scheduler = try Scheduler()
  var configuration = MemoryConfiguration()
  configuration.limit = .budget(16 << 20)  // bytes; by default it is the machine's memory
  let (reports, heard) = AsyncStream.makeStream(of: MemoryEvent.self)
  let memory = try HostMemory(
    scheduler: scheduler, configuration: configuration,
    store: HibernationStore(path: path, bytes: 64 << 20), io: nil
  ) { heard.yield($0) }
  var policy = AppsPolicy()
  policy.suspendsOnReturn = true  // as soon as it has saved, not five seconds later
  let host = try AppHost(scheduler: scheduler, policy: policy, memory: memory)
  try await memory.serve(host)

  let events = await host.observe()
  let lines = Published(["milk", "bread"])
  let id = await host.register(Manifest(identifier: "notes"), memory: memory) { _, own in Notes(lines, own) }
  let notes = try await host.launch(id)
  try await host.leave(id)  // the user goes elsewhere
  for await event in events { if case .moved(_, .suspended, _) = event.action { break } }
  let late = try notes.task { "a task that was queued meanwhile sees \(lines.value)" }

  let game = await host.register(Manifest(identifier: "game"), memory: memory) { _, own in
    Game(level: try? own.allocate(bytes: 9 << 20))  // with the drawing that is 13 of 16 MiB
  }
  try await host.launch(game)
  for await report in reports { if case .stored = report { break } }
  print("notes: \(await notes.state()), \(memory.broker.ledger.inUse >> 20) MiB in use")

  try await host.terminate(game)
  try await host.bringForward(id)
  print(await late.value)
}
