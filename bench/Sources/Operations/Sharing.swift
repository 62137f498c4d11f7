import Opportune
import Synchronization

extension Comparison {
  /// State that several share, while nobody else wants it.
  static let sharing: [Entry] = [
    // Rival: a mutex around the same reference.
    Entry("read_published") {
      let fixture = try Fixture()
      let ours = Published([1, 2, 3])
      let rival = Guarded()
      return Comparison(
        ours: { operations in
          var sum = 0
          for _ in 0..<operations { sum &+= ours.value.count }
          withExtendedLifetime((fixture, sum)) {}
        },
        rival: { operations in
          var sum = 0
          for _ in 0..<operations { sum &+= rival.value.count }
          withExtendedLifetime(sum) {}
        })
    },
    // Rival: a message to a default actor on the default executor.
    Entry("lock_section") {
      let fixture = try Fixture()
      let ours = try OpportuneLock(0, in: fixture.scheduler)
      let rival = Counter()
      return Comparison(
        ours: { operations in
          try await fixture.app.task {
            for _ in 0..<operations { try await ours.withLock { $0 &+= 1 } }
          }.value
        },
        rival: { operations in for _ in 0..<operations { await rival.increment() } })
    },
    // From the background. Rival: a strand without a ceiling.
    Entry("hop_ceiling") {
      let fixture = try Fixture()
      let back = try fixture.scheduler.makeApp(named: "back", band: .background)
      let ours = StrandCounter(try back.makeStrand(named: "ceiling", ceiling: .foreground))
      let rival = StrandCounter(try back.makeStrand(named: "plain"))
      return Comparison(
        ours: { operations in
          await back.task { for _ in 0..<operations { await ours.increment() } }.value
        },
        rival: { operations in
          await back.task { for _ in 0..<operations { await rival.increment() } }.value
        })
    },
  ]
}

private final class Guarded: Sendable {
  private let state = Mutex([1, 2, 3])
  var value: [Int] { state.withLock { $0 } }
}
