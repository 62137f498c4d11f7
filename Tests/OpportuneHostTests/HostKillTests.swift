import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// A host that is killed at a random moment leaves nothing frozen and loses nothing.
///
/// `scripts/host-kills` does it a thousand times each night, with the limit of a second.
@Suite(.bounded, .serialized) struct HostKillTests {
  private static func number(_ name: String) -> UInt64? {
    ProcessInfo.processInfo.environment["OPPORTUNE_HOST_KILLS" + name].flatMap { UInt64($0) }
  }

  @Test(arguments: Backends.usable) func killedAtRandomMoments(backend: Backend) async throws {
    let count = Int(Self.number("") ?? 8)
    let seed = Self.number("_SEED") ?? .random(in: 0 ... .max)
    print("\(count) kills by \(backend.rawValue): OPPORTUNE_HOST_KILLS_SEED=\(seed)")
    // The machine of a test may be busy.
    let limit = Duration.milliseconds(Int64(clamping: Self.number("_LIMIT") ?? 30_000))
    let kills = try await HostKills(backend, seed: seed, limit: limit)
    for number in 0..<count {
      do { try await kills.kill() } catch {
        Issue.record("seed \(seed), \(number): \(error)")
        return
      }
    }
    try await kills.end()
    // Else nothing was tried.
    #expect(kills.suspensions > count / 4)
    print(
      "\(kills.killsWithFrozen) found something frozen, thawed within \(kills.slowestThaw) at most; "
        + "\(kills.suspensions) suspensions by hosts that had found their apps")
  }
}
