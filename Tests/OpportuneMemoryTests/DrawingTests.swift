import TestSupport
import Testing

@testable import OpportuneMemory

/// Drawing memory while other threads set its app's standing.
@Suite(.bounded) struct DrawingTests {
  /// Its maker reads where the app stands, and the walk over what there is of it may be over by then.
  // R-GFX-04
  @Test(arguments: [AppStanding.active, .background])
  func whatIsMadeWhileTheAppMovesIsWhatTheAppIsInTheEnd(end: AppStanding) throws {
    for round in 0..<200 {
      let broker = try makeBroker { $0.drawing = .volatile }
      let app = broker.makeMemory(named: "app")
      let made = Kept()
      together(2) { index in
        if index == 0 {
          made.regions = (0..<20).compactMap { _ in try? app.drawing(bytes: 1) }
        } else {
          for _ in 0..<20 {
            app.setStanding(.background)
            app.setStanding(.active)
          }
          app.setStanding(end)
        }
      }
      #expect(made.regions.count == 20)
      #expect(made.regions.allSatisfy { $0.isVolatile == !end.isForeground }, "round \(round)")
    }
  }

  /// It comes back before the walk of who sent it away.
  // R-GFX-04
  @Test func whoeverSetsRegionsSetsThemByWhereTheAppIsByThen() throws {
    let other = Intruder()
    let broker = try makeBroker(clock: other.clock) { $0.drawing = .volatile }
    let app = broker.makeMemory(named: "app")
    let regions = try (0..<4).map { _ in try app.drawing(bytes: 1) }
    other.acts = { app.setStanding(.active) }
    app.setStanding(.background)
    #expect(other.acts == nil && app.standing == .active)
    #expect(!regions.contains { $0.isVolatile })
    app.setStanding(.background)
    #expect(regions.allSatisfy { $0.isVolatile })
  }

  private final class Kept: @unchecked Sendable {  // one thread writes it, another reads it when that is done
    var regions: [Purgeable<UInt8>] = []
  }
}
