import OpportuneFuzz
import TestSupport
import Testing

/// The explorer itself, checked against what the language is known to allow and forbid.
@Suite(.bounded) struct LitmusTests {
  // R-CARD-09
  @Test(arguments: LitmusTest.all.map(\.name))
  func outcomeAppearsOnlyWhereAllowed(name: String) throws {
    let test = try #require(LitmusTest.all.first { $0.name == name })
    #expect(try test.appears() == test.isAllowed)
  }
}

/// The small worlds: the quick ones to their ends, the others for a moment.
@Suite(.bounded) struct WorldTests {
  // R-CARD-09
  @Test(arguments: World.all.map(\.name))
  func nothingIsBroken(name: String) throws {
    let world = try #require(World.all.first { $0.name == name })
    let (figures, finding) = try Explorer().exhaust(world, milliseconds: world.isQuick ? 60_000 : 400)
    #expect(finding == nil, "\(finding?.timeline ?? "")")
    #expect(figures.executions > 0)
    #expect(figures.isComplete || !world.isQuick)
  }
}
