import Foundation
import Opportune

/// What a small container gives: here one worker, no io_uring and 16 MiB are asked for, so it is tried anywhere.
func containers() async throws {
  let found = Diagnosis.run().findings + Diagnosis.memoryFindings(storeFolder: NSTemporaryDirectory())
  for subject in ["User", "CPU limit", "Memory limit", "io_uring"] {
    guard let finding = found.first(where: { $0.subject == subject }) else { continue }
    print("\(subject) is told of, with a remedy: \(finding.status == .ok || finding.remedy != nil)")
  }

  let own = try Scheduler()  // by default as many as CPUs, affinity and quota allow
  print(
    "workers: \((1...ProcessInfo.processInfo.processorCount).contains(own.width) ? "no more than CPUs" : "?")"
  )
  try await own.shutdown()

  var configuration = SchedulerConfiguration()
  configuration.workers = .fixed(1)
  let scheduler = try Scheduler(configuration: configuration)
  let app = try scheduler.makeApp(named: "app", band: .background)
  var io = IOConfiguration()
  io.backend = .threads  // by default io_uring, and threads where the kernel or a filter refuses it
  let broker = try IOBroker(configuration: io)
  let files = try broker.makeIO(for: app)
  let path = FilePath(NSTemporaryDirectory()).appending("guide-\(UUID())")
  defer { try? FileManager.default.removeItem(atPath: path.string) }
  let text = try await app.task {
    try await files.writeFile(path, Array("written by threads".utf8))
    return String(decoding: try await files.readFile(path), as: UTF8.self)
  }.value
  print("\(text), read by \(scheduler.width) worker")

  var memory = MemoryConfiguration()
  memory.limit = .budget(16 << 20)  // by default the cgroup's limit, where the machine has more
  let caches = try MemoryBroker(configuration: memory).makeMemory(named: "caches")
  let cache: PurgeableCache<Int> = try caches.cache(costLimit: 4 << 20)
  try cache.insert([UInt8](repeating: 1, count: 4096), for: 1)
  print("kept: \(cache.withBytes(of: 1) { $0.count } ?? 0) bytes")

  await broker.shutdown()
  try await scheduler.shutdown()
}
