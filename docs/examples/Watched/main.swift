import Opportune

// A program that can be watched in a browser of this machine: an indexer reads all the time, and each line of
// the input asks the foreground something. It ends with its input.
let scheduler = try Scheduler()
let ui = try scheduler.makeApp(named: "ui")
let indexer = try scheduler.makeApp(named: "indexer", band: .background)
let broker = try IOBroker()
let files = try broker.makeIO(for: indexer)

let page = try await SchedulerPage(of: scheduler, through: broker)
try FileDescriptor.standardOutput.writeAll("\(page.address)\n".utf8)

let indexing = indexer.task {
  while !Task.isCancelled {
    _ = try await files.readFile("/proc/self/maps")
    try await indexer.clock.sleep(for: .milliseconds(10))
  }
}

while let line = readLine() {
  let words = await ui.task { line.split(separator: " ").count }.value
  try FileDescriptor.standardOutput.writeAll("\(words)\n".utf8)
}

indexing.cancel()
await page.close()
await broker.shutdown()
try await scheduler.shutdown()
