import Opportune

extension Comparison {
  /// What counting costs: closures through an app with statistics, beside one without.
  static let statistics: [Entry] = [
    Entry("statistics_on") {
      let on = try Fixture()
      let off = try Fixture { $0.collectsStatistics = false }
      return Comparison(
        ours: { operations in await submit(operations, to: on.app) },
        rival: { operations in await submit(operations, to: off.app) })
    }
  ]

  private static func submit(_ operations: Int, to app: App) async {
    let latch = Latch(operations)
    await onThreads(1) { _ in
      for _ in 0..<operations {
        do { try app.submit { latch.countDown() } } catch { latch.countDown() }
      }
      latch.wait()
    }
  }
}
