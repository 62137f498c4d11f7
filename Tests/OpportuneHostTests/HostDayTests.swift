import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// A day of random use of a host and of programs that misbehave leads to what a model says.
///
/// `scripts/host-day` is thousands of steps of it each night.
@Suite(.bounded, .serialized) struct HostDayTests {
  private static func number(_ name: String) -> UInt64? {
    ProcessInfo.processInfo.environment["OPPORTUNE_HOST_DAY" + name].flatMap { UInt64($0) }
  }

  // R-LIFE-01 R-LIFE-04 R-LIFE-06 R-LIFE-08
  @Test(arguments: Backends.usable) func aDayOfUseGoesAsTheModelSays(backend: Backend) async throws {
    // By signals each look goes through all processes of the machine.
    let count = Int(Self.number("") ?? (backend == .signals ? 40 : 150))
    let seed = Self.number("_SEED") ?? .random(in: 0 ... .max)
    print("\(count) steps by \(backend.rawValue): OPPORTUNE_HOST_DAY_SEED=\(seed)")
    let began = ContinuousClock.now
    let day = try await HostDay(backend, seed: seed, patience: .seconds(20))
    do {
      for _ in 0..<count { try await day.act() }
      try await day.end()
    } catch {
      Issue.record("\(error)")
      return
    }
    print(
      "\(day.launches) launches, \(day.switches) switches, \(day.stops) stops, \(day.kills) kills, "
        + "\(day.refusals) refusals in \(began.duration(to: .now)); the host has grown by \(day.growth) bytes"
    )
    // Else nothing was tried.
    #expect(day.launches > count / 12)
    #expect(count < 100 || day.stops > count / 50)
  }
}
