import TestSupport
import Testing

@testable import OpportuneScheduler

@Suite(.bounded) struct BandsTests {
  // R-CPU-01, R-CPU-03, R-CPU-04
  @Test func defaultOverlapsByOneLevel() {
    let bands = Bands.default
    #expect(bands.background == 0...20)
    #expect(bands.foreground == 20...50)
    #expect(bands.realTime == 51...63)
    #expect(bands.overlap == 1)
  }

  // R-CPU-04
  @Test func overlapCanBeMoreThanOneLevelOrNone() throws {
    for levels in 0...Bands.overlapMax {
      let bands = try Bands.overlapping(by: levels)
      #expect(bands.overlap == levels)
      let shared = (0...63 as ClosedRange<UInt8>).compactMap(Level.init(rawValue:))
        .filter { bands.background.contains($0) && bands.foreground.contains($0) }
      #expect(shared.count == levels)
    }
    #expect(try Bands.overlapping(by: 1) == .default)
    #expect(try Bands.overlapping(by: 0) == .disjoint)
  }

  // R-CPU-01, R-CPU-04
  @Test func disjointBandsShareNoPool() {
    let bands = Bands.disjoint
    #expect(bands.overlap == 0)
    for rank in 0..<Level.count {
      #expect(bands.pool(of: bands.level(band: .foreground, rank: rank)) == .foreground)
      #expect(bands.pool(of: bands.level(band: .background, rank: rank)) == .background)
    }
  }

  @Test(arguments: [-1, Bands.overlapMax + 1, .max, .min])
  func refusesImpossibleOverlap(levels: Int) throws {
    let error = try #require(throws: ConfigurationError.self) { try Bands.overlapping(by: levels) }
    #expect(error.code == .overlap)
    #expect(error.description.contains("\(levels)") && error.description.contains("21"))
  }

  @Test func refusesRangesThatDoNotFit() throws {
    let refused: [(ClosedRange<Level>, ClosedRange<Level>, ClosedRange<Level>)] = [
      (0...20, 20...50, 50...63),  // real-time shares a level with foreground
      (0...20, 20...50, 10...19),  // real-time below
      (5...20, 4...50, 51...63),  // foreground reaches below background
      (0...50, 20...50, 51...63),  // nothing of its own for foreground
      (0...60, 20...50, 61...63),  // background above foreground
      (0...34, 34...50, 51...63),  // 16 levels above the overlap: one too few
      (0...20, 35...50, 51...63),  // the same with a gap
    ]
    for (background, foreground, realTime) in refused {
      let error = try #require(throws: ConfigurationError.self) {
        try Bands(background: background, foreground: foreground, realTime: realTime)
      }
      #expect(error.code == .bands)
    }
    let smallest = try Bands(background: 0...33, foreground: 33...50, realTime: 51...63)
    #expect(smallest.overlap == 1)
  }

  @Test func rankIsStepsBelowTheTop() {
    let bands = Bands.default
    #expect(bands.level(band: .foreground, rank: 0) == 50)
    #expect(bands.level(band: .foreground, rank: 8) == 42)
    #expect(bands.level(band: .foreground, rank: 30) == 20)
    #expect(bands.level(band: .foreground, rank: 31) == 20)
    #expect(bands.level(band: .foreground, rank: -5) == 50)
    #expect(bands.level(band: .background, rank: .max) == 0)
    #expect(bands.level(band: .realTime, rank: 12) == 51)
    #expect(bands.level(band: .realTime, rank: 13) == 51)
  }

  @Test func tableSaysTheSameAsTheFunction() {
    for band in Band.allCases {
      let table = Bands.default.levelTable(for: band)
      #expect(table.count == 64)
      for rank in 0..<64 { #expect(table[rank] == Bands.default.level(band: band, rank: rank).rawValue) }
    }
  }

  @Test func taskPrioritiesGetDistinctRanksInOrder() {
    let bands = Bands.default
    let ordered = [TaskPriority(rawValue: 33), .high, .medium, .low, .background]
    let ranks = ordered.map { bands.initialRank(for: $0, band: .foreground) }
    #expect(ranks == [0, 4, 8, 12, 16])
    #expect(bands.initialRank(for: nil, band: .foreground) == 8)
    #expect(bands.initialRank(for: .utility, band: .foreground) == 12)
    #expect(bands.initialRank(for: .userInitiated, band: .foreground) == 4)
    #expect(bands.initialRank(for: .background, band: .realTime) == 12, "the band has 13 levels")
    let all = (UInt8.min ... .max).map {
      bands.initialRank(for: TaskPriority(rawValue: $0), band: .foreground)
    }
    #expect(all == all.sorted(by: >), "a higher priority never has a lower level")
  }

  // R-CPU-01, R-CPU-03
  @Test func undemotedForegroundNeverLandsInTheOverlap() throws {
    let tightest = try Bands(background: 0...33, foreground: 0...50, realTime: 51...63)
    for bands in [Bands.default, .disjoint, try .overlapping(by: Bands.overlapMax), tightest] {
      for priority in UInt8.min ... .max {
        let rank = bands.initialRank(for: TaskPriority(rawValue: priority), band: .foreground)
        let level = bands.level(band: .foreground, rank: rank)
        #expect(level > bands.background.upperBound)
        #expect(bands.pool(of: level) == .foreground)
      }
    }
  }

  // R-CPU-03, R-CPU-05
  @Test func demotedForegroundIsServedBesideBackgroundInTheOverlap() {
    let bands = Bands.default
    let rank = bands.initialRank(for: nil, band: .foreground)
    let depthMax = bands.depthMax(of: .foreground, rank: rank)
    #expect(depthMax == 22)
    #expect(bands.pool(of: bands.level(band: .foreground, rank: rank + depthMax - 1)) == .foreground)
    #expect(bands.pool(of: bands.level(band: .foreground, rank: rank + depthMax)) == .background)
    #expect(bands.level(band: .foreground, rank: rank + depthMax) == bands.level(band: .background, rank: 0))
  }

  @Test func everyLevelHasALane() throws {
    let gaps = try Bands(background: 2...10, foreground: 20...50, realTime: 55...60)
    let pools = (0...63 as ClosedRange<UInt8>).map { gaps.pool(of: Level(known: $0)) }
    #expect(pools[0...10].allSatisfy { $0 == .background })
    #expect(pools[11...54].allSatisfy { $0 == .foreground })
    #expect(pools[55...63].allSatisfy { $0 == .realTime })
  }
}
