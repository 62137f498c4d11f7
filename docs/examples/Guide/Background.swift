import Opportune

/// A long calculation behind, five short requests in front of it.
func background() async throws {
  let scheduler = try Scheduler()
  let ui = try scheduler.makeApp(named: "ui")
  let maintenance = try scheduler.makeApp(named: "maintenance", band: .background)

  let finished = Published(0)  // parts; see sharing.md
  let sum = maintenance.task(name: "count primes") {
    await withTaskGroup(of: Int.self) { group in  // child tasks stay in the app, on every free core
      for part in 0..<16 {
        group.addTask {
          defer { finished.update { $0 + 1 } }
          return primes(in: part * 1_000..<(part + 1) * 1_000)
        }
      }
      return await group.reduce(0, +)
    }
  }
  for request in 1...5 {
    print(await ui.task { "request \(request): \(primes(in: 0..<100)) primes" }.value)
  }

  maintenance.suspend()  // now it does not even get what nobody else wants
  await maintenance.untilSuspended()
  let before = finished.value
  print(await ui.task { "request 6: \(primes(in: 0..<1_000)) primes" }.value)
  print("suspended, maintenance finished \(finished.value - before) parts")
  maintenance.resume()

  print("maintenance: \(await sum.value) primes")
  let statistics = maintenance.statistics
  print("all in background: \(statistics.counts(in: .background).jobs == statistics.jobs)")
  try await scheduler.shutdown()
}

func primes(in range: Range<Int>) -> Int {
  range.count { n in n > 1 && !(2..<n).prefix { $0 * $0 <= n }.contains { n % $0 == 0 } }
}
