import Foundation
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneLocation
@testable import OpportuneTraces

@Suite(.bounded, .timeLimit(.minutes(1))) struct TraceSourceTests {
  private func source() throws -> (TraceSource, LocationTrace) {
    var table = "timestamp,latitude,longitude,rawcellid\n"
    for step in 0..<20 {
      table += "\(1_581_041_700_000 + 5 * step),50,\(8 + Double(step) * 1e-4),\(step < 10 ? 7 : 9)\n"
    }
    let trace = try LocationTrace.read(Data(table.utf8))
    return (TraceSource(trace, start: .now - .seconds(100)), trace)
  }

  // R-LOC-08, R-LOC-11
  @Test func aRecordingComesAsItWasRecorded() async throws {
    let began = ContinuousClock.now
    let (source, trace) = try source()
    var updates: [SourceUpdate] = []
    for await update in source.updates() { updates.append(update) }
    #expect(ContinuousClock.now - began >= .milliseconds(95))
    let fixes = updates.compactMap { if case .fix(let fix) = $0 { fix } else { nil } }
    #expect(fixes.map(\.position) == trace.fixes.map(\.position) && updates.count == 23)
    // On the host's clock, as far apart as they were, and none before it was due.
    let first = try #require(fixes.first).time
    #expect(first >= .seconds(100) && first <= .zero + .seconds(100) + (ContinuousClock.now - began))
    #expect(fixes.map { $0.time - first } == trace.fixes.map { $0.time - .zero })
    #expect(updates.prefix(2) == [.available(true), .cell(7)])
    #expect(updates.firstIndex(of: .cell(9)) == 12)
  }

  // R-LOC-08, R-LOC-11
  @Test func whatASourceTellsIsAnEventOfTheSystem() async throws {
    let (source, _) = try source()
    var system = try LocationSystem()
    let app = AppID(0)
    system.register(app, Manifest(identifier: "Maps", usageDescriptions: LocationRig.keys))
    _ = try system.handle(.app(app, .setAuthorization(.allowed(.always))), at: .zero)
    _ = try system.handle(.available(.satellite, false), at: .zero)
    _ = try system.handle(.app(app, .start(.significantChange())), at: .zero)
    var told: [LocationNotice] = []
    for await update in source.updates() {
      for case .deliver(_, let notice) in try system.handle(update.event(of: source.kind), at: .seconds(1000))
      {
        told.append(notice)
      }
    }
    // The other cell, not the hundred metres.
    #expect(told.count == 1 && system.capabilities.sources.contains(.satellite))
  }

  @Test func itEndsWhenNobodyReads() async throws {
    let (source, _) = try source()
    let reader = Task {
      for await update in source.updates() { if case .fix = update { return true } }
      return false
    }
    #expect(await reader.value)
    let late = Task { for await _ in source.updates() {} }
    late.cancel()
    await late.value
  }
}
