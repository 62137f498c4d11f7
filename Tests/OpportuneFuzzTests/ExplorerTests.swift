import OpportuneFuzz
import Testing

/// The explorer itself, against what the language is known to allow and forbid.
@Suite struct LitmusTests {
  // R-CARD-09
  @Test(arguments: LitmusTest.all.map(\.name))
  func outcomeAppearsOnlyWhereAllowed(name: String) throws {
    let test = try #require(LitmusTest.all.first { $0.name == name })
    #expect(try test.appears() == test.isAllowed)
  }
}

/// The small worlds, to the end.
@Suite struct WorldTests {
  // R-CARD-09
  @Test(arguments: World.all.filter(\.isQuick).map(\.name))
  func nothingIsBroken(name: String) throws {
    let world = try #require(World.all.first { $0.name == name })
    // So many milliseconds of each; scripts/explore goes on to the end of all.
    let (figures, finding) = try Explorer().exhaust(world, milliseconds: 400)
    #expect(finding == nil, "\(finding?.timeline ?? "")")
    #expect(figures.executions > 0)
  }

  @Test func aWorldIsExploredToItsEnd() throws {
    let world = try #require(World.all.first { $0.name == "runq-push-take" })
    let (figures, finding) = try Explorer().exhaust(world, milliseconds: 0)
    #expect(finding == nil && figures.isComplete && figures.states > 100)
  }
}
