import OpportuneBase
import OpportuneModels
import TestSupport
import Testing

@testable import OpportuneScheduler

/// Random programs of hogs, short jobs and jobs that block, over virtual time.
@Suite(.bounded) struct PoolModelTests {
  private static func programs(_ random: inout SplitMix64, most: Int) -> [PoolModel.Program] {
    // Of some programs all jobs are of a kind, or nearly.
    let (hogs, blockers) = (Int.random(in: 0...10, using: &random), Int.random(in: 0...10, using: &random))
    let gap = UInt64.random(in: 10_000...3_000_000, using: &random)
    var arrival: UInt64 = 0
    return (0..<Int.random(in: 4...most, using: &random)).map { _ in
      if Bool.random(using: &random) { arrival += .random(in: 0...gap, using: &random) }
      let origin = Int.random(in: 0...2, using: &random)
      let short = UInt64.random(in: 20_000...400_000, using: &random)
      if Int.random(in: 0..<14, using: &random) < hogs {
        let isKnown = Int.random(in: 0..<4, using: &random) == 0
        return PoolModel.Program(
          arrival: arrival, parts: [.random(in: 12_000_000...80_000_000, using: &random)],
          depth: isKnown ? 1 : 0, origin: origin)
      }
      if Int.random(in: 0..<14, using: &random) < blockers {
        // Some run on as hogs.
        let rest = Int.random(in: 0..<4, using: &random) == 0 ? 30_000_000 : short
        return PoolModel.Program(
          arrival: arrival, parts: [short, .random(in: 1_000_000...200_000_000, using: &random), rest],
          origin: origin)
      }
      return PoolModel.Program(arrival: arrival, parts: [short], origin: origin)
    }
  }

  /// Runs random programs, each on one to four CPUs, and returns what happened; throws at a violation.
  private func run(
    seed: UInt64, count: Int, most: Int, ignores: @escaping (PoolPolicy.Step) -> Bool = { _ in false }
  ) throws -> PoolModel.Tally {
    var random = SplitMix64(seed: seed)
    var sum = PoolModel.Tally()
    for number in 0..<count {
      let width = Int.random(in: 1...4, using: &random)
      let programs = Self.programs(&random, most: most)
      var model = PoolModel(width: width, ignores: ignores)
      do throws(PoolModel.Violation) { try model.run(programs) } catch let violation {
        throw PoolModel.Violation(text: "program \(number) of seed \(seed), \(width) CPUs: \(violation.text)")
      }
      sum.add(model.tally)
    }
    return sum
  }

  // R-CPU-02 R-CPU-06 R-CPU-08
  @Test(arguments: 1...8 as ClosedRange<UInt64>)
  func noFreshJobWaitsForLongerThanPromised(seed: UInt64) throws {
    let tally = try run(seed: seed, count: 6, most: 60)
    #expect(tally.started > 50)
    // The programs are about something.
    for kind in ["replaceBlocked", "lower", "yield", "callSpare"] {
      #expect(tally.kinds[kind, default: 0] > 0, "\(kind)")
    }
    #expect(tally.worst > 0.1, "the promise says something: \(tally.worst)")
  }

  // R-CPU-02 R-CPU-06
  /// The model knows of floods, of what is held back, of the memory map and of the background.
  @Test func eachKindOfJobIsTried() throws {
    func tally(_ programs: PoolModel.Program...) throws -> PoolModel.Tally {
      var model = PoolModel(width: 1)
      try model.run(programs)
      return model.tally
    }
    var flood = PoolModel.Program(arrival: 0, parts: [2000])
    flood.copies = 12_000
    #expect(try tally(flood).floods > 0)

    var held = PoolModel.Program(arrival: 0, parts: [60_000_000], depth: 1)
    (held.copies, held.mayBeShort) = (12, true)
    let ofHeld = try tally(held)
    #expect(ofHeld.extraRooms > 0 && ofHeld.kinds["endTrial", default: 0] > 0)

    var waiting = PoolModel.Program(arrival: 0, parts: [50_000, 20_000_000, 50_000])
    (waiting.copies, waiting.wait) = (6, .memoryMap)
    #expect(try tally(waiting).replacedOnMap > 0)

    var moved = PoolModel.Program(arrival: 0, parts: [60_000_000], pool: .background)
    moved.hasMoved = true
    let blocked = PoolModel.Program(arrival: 0, parts: [50_000, 90_000_000], pool: .background)
    let short = PoolModel.Program(arrival: 0, parts: [50_000], pool: .background)
    let ofBackground = try tally(moved, blocked, short)
    #expect(
      ofBackground.kinds["sink", default: 0] > 0 && ofBackground.kinds["replaceBlocked", default: 0] > 0)
  }

  /// Who wakes has no more of the CPU than the others, or it alone would have it for as long as it slept.
  @Test func whoWakesShares() throws {
    let hog: [UInt64] = [12_000_000]
    var model = PoolModel(width: 1)
    try model.run(
      [
        .init(arrival: 0, parts: hog, depth: 1), .init(arrival: 0, parts: [20_000, 8_800_000, 30_000_000]),
        .init(arrival: 1_212_000, parts: hog, depth: 1), .init(arrival: 2_664_000, parts: hog),
      ] + (0..<4).map { _ in .init(arrival: 4_452_000, parts: hog) })
    #expect(model.tally.started == 6)
  }

  /// More hogs at once than there is room for, and short jobs later.
  private func manyHogs(ignores: @escaping (PoolPolicy.Step) -> Bool = { _ in false }) throws
    -> PoolModel.Tally
  {
    var model = PoolModel(width: 1, ignores: ignores)
    var programs = (0..<24).map { _ in PoolModel.Program(arrival: 0, parts: [400_000_000]) }
    programs += (0..<20).map { PoolModel.Program(arrival: 1_000_000_000 + $0 * 10_000_000, parts: [100_000]) }
    try model.run(programs)
    return model.tally
  }

  // R-CPU-06
  @Test func hogsBeyondAllRoomKeepNobodyWaitingForEver() throws {
    let tally = try manyHogs()
    #expect(tally.kinds["sinkStarving", default: 0] > 0 && tally.started == 44)
  }

  // R-CPU-02 R-CPU-06
  /// The model finds a monitor that forgets what it is told to do.
  @Test(arguments: [["replaceBlocked"], ["yield"], ["yield", "lower"]])
  func aMonitorThatForgetsIsFound(kinds: [String]) {
    #expect(throws: PoolModel.Violation.self) {
      for seed in 1...8 as ClosedRange<UInt64> {
        _ = try run(seed: seed, count: 6, most: 60) { step in kinds.contains { "\(step)".hasPrefix($0) } }
      }
    }
  }

  // R-CPU-06
  @Test func aMonitorThatLetsHogsStarveThePoolIsFound() {
    #expect(throws: PoolModel.Violation.self) {
      _ = try manyHogs { if case .sinkStarving = $0 { true } else { false } }
    }
  }
}
