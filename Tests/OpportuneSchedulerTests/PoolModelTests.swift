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
    seed: UInt64, count: Int, most: Int, bugs: PoolModel.Bugs = PoolModel.Bugs()
  ) throws -> PoolModel.Tally {
    var random = SplitMix64(seed: seed)
    var sum = PoolModel.Tally()
    for number in 0..<count {
      let width = Int.random(in: 1...4, using: &random)
      let programs = Self.programs(&random, most: most)
      var model = PoolModel(width: width, bugs: bugs)
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
    moved.hasSunk = true
    let blocked = PoolModel.Program(arrival: 0, parts: [50_000, 90_000_000], pool: .background)
    let short = PoolModel.Program(arrival: 0, parts: [50_000], pool: .background)
    let ofBackground = try tally(moved, blocked, short)
    #expect(
      ofBackground.kinds["sink", default: 0] > 0 && ofBackground.kinds["replaceBlocked", default: 0] > 0)
  }

  // R-CPU-02 R-CPU-06
  /// A job of the background is raised, and lowered for a hog of the foreground's; one of the foreground
  /// leaves its token as its app goes, and is not judged until it is back.
  @Test func jobsWhoseBandsChangeAreTried() throws {
    func tally(
      _ pool: WorkerPool, bugs: PoolModel.Bugs = .init(), _ change: (inout PoolModel.Program) -> Void
    )
      throws -> PoolModel.Tally
    {
      var job = PoolModel.Program(arrival: 0, parts: [60_000_000], pool: pool)
      change(&job)
      var model = PoolModel(width: 1, bugs: bugs)
      try model.run([job, PoolModel.Program(arrival: 100_000, parts: [50_000], pool: pool)])
      return model.tally
    }
    let raised = try tally(.background) { $0.awaitedAfter = 5_000_000 }
    #expect(
      raised.kinds["setBand"] == 1 && raised.kinds["lower"] ?? 0 > 1 && raised.kinds["leavePool"] == nil)
    let gone = try tally(.foreground) { $0.movesAfter = 5_000_000 }
    #expect(gone.kinds["setBand"] == 1 && gone.kinds["leavePool"] == 1 && gone.kinds["lower"] == nil)
    let back = try tally(.foreground) { ($0.movesAfter, $0.returnsAfter) = (5_000_000, 10_000_000) }
    #expect(back.kinds["setBand"] == 2 && back.kinds["lower"] ?? 0 > 0)
    for kind in ["setBand", "lower"] {
      var bugs = PoolModel.Bugs()
      bugs.ignores = { "\($0)".hasPrefix(kind) }
      #expect(throws: PoolModel.Violation.self) {
        _ = try tally(.background, bugs: bugs) { $0.awaitedAfter = 5_000_000 }
      }
    }
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
  private func manyHogs(bugs: PoolModel.Bugs = PoolModel.Bugs()) throws -> PoolModel.Tally {
    var model = PoolModel(width: 1, bugs: bugs)
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
    var bugs = PoolModel.Bugs()
    bugs.ignores = { step in kinds.contains { "\(step)".hasPrefix($0) } }
    #expect(throws: PoolModel.Violation.self) {
      for seed in 1...8 as ClosedRange<UInt64> { _ = try run(seed: seed, count: 6, most: 60, bugs: bugs) }
    }
  }

  // R-CPU-06
  @Test func aMonitorThatLetsHogsStarveThePoolIsFound() {
    var bugs = PoolModel.Bugs()
    bugs.ignores = { if case .sinkStarving = $0 { true } else { false } }
    #expect(throws: PoolModel.Violation.self) { _ = try manyHogs(bugs: bugs) }
  }

  /// A threshold of the policy that is wrong.
  enum WrongThreshold: CaseIterable {
    case longQuantum, lateSpare, earlySpare, tooManyOnMap, endlessFlood

    var bugs: PoolModel.Bugs {
      var bugs = PoolModel.Bugs()
      switch self {
      case .longQuantum: bugs.distort = { $0.quantum *= 2 }
      case .lateSpare: bugs.distort = { $0.spareDelay *= 10 }
      case .earlySpare: bugs.distort = { $0.spareDelay /= 10 }
      case .tooManyOnMap: bugs.distort = { $0.width *= 2 }
      case .endlessFlood: bugs.endsFloods = false
      }
      return bugs
    }

    /// What shows it, on how many CPUs.
    var programs: (width: Int, [PoolModel.Program]) {
      let (hog, short): ([UInt64], [UInt64]) = ([60_000_000], [100_000])
      func several(_ count: Int, _ parts: [UInt64]) -> PoolModel.Program {
        var program = PoolModel.Program(arrival: 0, parts: parts)
        program.copies = count
        return program
      }
      switch self {
      // One of them begins between two ticks.
      case .longQuantum: return (2, [several(1, hog), .init(arrival: 1_000_000, parts: hog)])
      case .lateSpare: return (1, [several(6, hog)])
      // One of those that run has just begun when the pool is looked at.
      case .earlySpare: return (1, [several(1, hog), several(1, short), several(4, hog)])
      case .tooManyOnMap:
        var waiting = several(6, [50_000, 20_000_000, 50_000])
        waiting.wait = .memoryMap
        return (1, [waiting])
      case .endlessFlood: return (1, [several(12_000, [2000]), .init(arrival: 100_000_000, parts: hog)])
      }
    }

    var finding: String {
      switch self {
      case .longQuantum: "is not lowered"
      case .lateSpare: "the spare worker is not called"
      case .earlySpare: "for no longer than ordinarily"
      case .tooManyOnMap: "one more that waits for the memory map"
      case .endlessFlood: "a flood is seen where there is none"
      }
    }
  }

  // R-CPU-02 R-CPU-06
  @Test(arguments: WrongThreshold.allCases) func aWrongThresholdIsFound(threshold: WrongThreshold) throws {
    let (width, programs) = threshold.programs
    var sound = PoolModel(width: width)
    try sound.run(programs)
    var model = PoolModel(width: width, bugs: threshold.bugs)
    let violation = #expect(throws: PoolModel.Violation.self) { try model.run(programs) }
    #expect(violation?.text.contains(threshold.finding) == true, "\(violation?.text ?? "")")
  }
}
