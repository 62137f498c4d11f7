import Opportune

/// Changed by both sides, for a moment each time.
actor Visits {
  private let strand: Strand
  private var count = 0

  init(_ strand: Strand) { self.strand = strand }
  nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }

  func add() { count += 1 }
  func total() -> Int { count }
}

func sharing() async throws {
  let scheduler = try Scheduler()
  let ui = try scheduler.makeApp(named: "ui")
  let indexer = try scheduler.makeApp(named: "indexer", band: .background)

  let index = Published(["swift": 1])  // many read it, few replace it: nobody waits
  let visits = Visits(try ui.makeStrand(named: "visits"))  // moments: its messages run in front
  let journal = try OpportuneLock([String](), in: scheduler, ceiling: .foreground)  // with awaits inside

  let indexing = indexer.task {
    let built = ["swift": 2, "linux": 1]  // as long as it takes, while readers read the old one
    index.publish(built)
    await visits.add()
    try await journal.withLock { $0.append("indexed") }
  }
  let asking = ui.task {
    await visits.add()
    try await journal.withLock { lines in
      lines.append("asked")
      await Task.yield()  // nobody else gets in here
      lines.append("answered")
    }
    return index.value["swift", default: 0]  // the old index or the new one, never half of each
  }

  let (seen, _) = (try await asking.value, try await indexing.value)
  print("the reader saw 1 or 2:", seen == 1 || seen == 2)
  print("published: \(index.value["linux", default: 0]), visits: \(await visits.total())")
  let lines = try await journal.withLock { $0 }
  print("journal: \(lines.count) lines, \(lines.contains(["asked", "answered"]) ? "in order" : "mixed up")")
  try await scheduler.shutdown()
}
