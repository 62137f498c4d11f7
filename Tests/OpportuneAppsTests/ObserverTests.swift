import Opportune
import TestSupport
import Testing

@Suite(.bounded) struct ObserverTests {
  // R-LIFE-18
  @Test(.timeLimit(.minutes(1)), arguments: [nil, 4, 1]) func whoFallsBehindMissesNothingInSilence(
    _ limit: Int?
  ) async throws {
    let host = try patientHost()
    let (all, some) = (await host.observe(), await host.observe(keeping: limit))
    let app = try await launchAndWait(host, Manifest(identifier: "app")) { _ in Silent() }
    try await host.terminate(app.id)
    await wait(host, app, for: .notRunning)
    var seen: [String] = []
    for await event in all {
      seen.append("\(event)")
      if case .moved(_, .notRunning, _) = event.action { break }
    }
    #expect(seen.count > 10)
    // Those that wait, and then the end: of the bounded one by itself.
    var kept: [String] = []
    for await event in some {
      kept.append("\(event)")
      if limit == nil, kept.count == seen.count { break }
    }
    #expect(kept == Array(seen.prefix(limit ?? seen.count)))
    // Who takes them in time sees all, however few may wait.
    var later = await host.observe(keeping: 1000).makeAsyncIterator()
    try await host.launch(app.id)
    #expect(await later.next() != nil)
    try await host.terminate(app.id)
  }
}
