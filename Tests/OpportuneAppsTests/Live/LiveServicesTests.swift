import Opportune
import TestSupport
import Testing

/// Services that wake live apps.
@Suite(.bounded) struct LiveServicesTests {
  private struct Woken: AppDelegate {
    let app: HostedApp
    let heard: AsyncStream<String>.Continuation

    func fetch() async -> FetchResult {
      heard.yield("fetch")
      return .newData
    }

    func didReceive(_ notice: AppNotice) async {
      switch notice {
      case .heartbeat: heard.yield("heartbeat")
      case .data: try? await app.post(.call("Ada"))
      case .message, .changes, .location, .completion, .revoked, .lockRevoked: break
      }
    }
  }

  private func launch(
    _ mode: Manifest.Mode, _ change: (inout AppsPolicy) -> Void = { _ in }
  ) async throws -> (host: AppHost, app: HostedApp, heard: AsyncStream<String>) {
    let host = try patientHost { change(&$0) }
    let (stream, heard) = AsyncStream.makeStream(of: String.self)
    let manifest = Manifest(identifier: "app", backgroundModes: [mode])
    let app = try await host.launch(manifest) { Woken(app: $0, heard: heard) }
    await wait(host, app, for: .active)
    return (host, app, stream)
  }

  // R-MAN-02
  @Test(.timeLimit(.minutes(1))) func itFetchesAgainAndAgainAndSleepsInBetween() async throws {
    let (host, app, heard) = try await launch(.fetch) { $0.fetch.shortest = .milliseconds(20) }
    var next = heard.makeAsyncIterator()
    try await host.leave(app.id)
    for _ in 0..<3 {
      await wait(host, app, for: .suspended)
      #expect(await next.next() == "fetch")
    }
    try await host.terminate(app.id)
  }

  // R-VOIP-02, R-VOIP-03, R-VOIP-05
  @Test(.timeLimit(.minutes(1))) func itSendsHeartbeatsAndSleepsInBetween() async throws {
    let (host, app, heard) = try await launch(.voip) { $0.network.minimumHeartbeat = .milliseconds(10) }
    var next = heard.makeAsyncIterator()
    try await app.post(.heartbeat(.milliseconds(20)))
    try await host.leave(app.id)
    for _ in 0..<3 {
      await wait(host, app, for: .suspended)
      #expect(await next.next() == "heartbeat")
    }
    try await host.terminate(app.id)
  }

  // R-VOIP-04, R-VOIP-06, R-VOIP-07
  @Test(.timeLimit(.minutes(1)), arguments: [true, false])
  func theUserAnswersACallOrIgnoresIt(accepts: Bool) async throws {
    let (host, app, _) = try await launch(.voip)
    try await leaveAndWait(host, app)
    let events = await host.observe()
    try await host.post(.app(app.id, .data(bytes: 1)))
    for await event in events {
      guard case .ask(let prompt, .call("Ada")) = event.action else { continue }
      try await host.post(.answer(prompt, accepted: accepts))
      break
    }
    await wait(host, app, for: accepts ? .active : .suspended)
    try await host.terminate(app.id)
  }
}
