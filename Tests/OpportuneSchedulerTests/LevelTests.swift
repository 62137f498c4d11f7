import TestSupport
import Testing

@testable import OpportuneScheduler

@Suite(.bounded) struct LevelTests {
  @Test func acceptsExactly64Levels() {
    let accepted = (UInt8.min ... .max).compactMap(Level.init(rawValue:))
    #expect(accepted.map(\.rawValue) == Array(0...63))
    #expect(accepted.count == Level.count)
    #expect(Level.lowest == 0 && Level.highest == 63)
  }

  // R-CPU-01
  @Test func higherLevelIsGreater() {
    #expect(Level.lowest < Level.highest)
    #expect([3, 63, 0, 20].sorted() as [Level] == [0, 3, 20, 63])
  }

  @Test func loweringStopsAtTheFloor() {
    #expect(Level(50).lowered(by: 8, floor: 20) == 42)
    #expect(Level(50).lowered(by: 31, floor: 20) == 20)
    #expect(Level(50).lowered(by: .max, floor: 20) == 20)
    #expect(Level(50).lowered(by: -1, floor: 20) == 50)
    #expect(Level(10).lowered(by: 1, floor: 20) == 10)
  }

  @Test func literalAbove63IsABugOfTheProgram() async {
    await #expect(processExitsWith: .failure) { _ = Level(integerLiteral: 64) }
  }
}
