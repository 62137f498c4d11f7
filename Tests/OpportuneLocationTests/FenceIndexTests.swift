import Glibc
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneLocation

@Suite(.bounded) struct FenceIndexTests {
  private static func places(_ count: Int, seed: UInt64) throws -> [Coordinate] {
    var generator = SplitMix64(seed: seed)
    return try (0..<count).map { index in
      // A third in one town, a third about the poles and the antimeridian, a third anywhere.
      let (latitude, longitude): (Double, Double) =
        switch index % 3 {
        case 0:
          (
            Double.random(in: 53.2...53.4, using: &generator),
            Double.random(in: -6.4 ... -6.1, using: &generator)
          )
        case 1:
          (Double.random(in: 89.5...90, using: &generator), Double.random(in: 179...180, using: &generator))
        default:
          (Double.random(in: -90...90, using: &generator), Double.random(in: -180...180, using: &generator))
        }
      return try place(latitude, longitude)
    }
  }

  // R-GEO-01
  @Test func itFindsWhatLookingAtEachFinds() throws {
    var generator = SplitMix64(seed: 3)
    var slots: [FenceSlot] = []
    var index = FenceIndex()
    for place in try Self.places(3000, seed: 1) {
      let reach = [10.0, 300, 20_000, 3_000_000, .infinity][Int.random(in: 0..<5, using: &generator)]
      slots.append(FenceSlot(centre: Point3(place).vector, reach: reach, generation: 0))
      index.insert(Int32(slots.count - 1), &slots)
    }
    // Half of them go again.
    var present = Set(slots.indices)
    for item in slots.indices where item % 2 == 0 {
      index.remove(Int32(item), &slots)
      present.remove(item)
    }
    for place in try Self.places(300, seed: 2) {
      let point = Point3(place).vector
      let radius = [1.0, 1000, 100_000][Int.random(in: 0..<3, using: &generator)]
      var found: [Int] = []
      index.forEach(near: point, within: radius, slots) { found.append(Int($0)) }
      let expected = present.filter { (point - slots[$0].centre).length <= slots[$0].reach + radius }
      #expect(found.count == expected.count && Set(found) == expected)
      let finite = present.filter { slots[$0].reach.isFinite }
      let least = index.least(from: point, below: 1e9, slots) { item, distance in
        slots[Int(item)].reach.isFinite ? abs(distance - slots[Int(item)].reach) : 1e9
      }
      let direct = finite.map { abs((point - slots[$0].centre).length - slots[$0].reach) }.min() ?? 1e9
      #expect(abs(least - direct) < 1e-6)
    }
  }

  // R-GEO-08
  @Test func aFenceIsAddedAsFastAmongLargeOnesAsAmongSmall() throws {
    // Large ones lie in the same few cells, which must not be walked through for each that comes.
    let places = try Self.places(30_000, seed: 4).filter { (53...54).contains($0.latitude) }
    func seconds(radius: Double) throws -> Double {
      var monitor = try RegionMonitor()
      let start = Self.processorSeconds()
      for place in places { _ = try monitor.add(Fence(.circle(place, radius: radius))) }
      return Self.processorSeconds() - start
    }
    let (small, large) = (try seconds(radius: 10), try seconds(radius: 100_000))
    #expect(
      places.count > 9000 && large < 8 * small, "\(large) s among large ones, \(small) among small ones")
  }

  /// Of this thread, so that others do not count.
  private static func processorSeconds() -> Double { Double(SystemClock.threadCPU()) / 1e9 }

  // R-GEO-01
  @Test func aHundredThousandFencesCostWhatTheFewNearOnesCost() throws {
    var rig = try MonitorRig()
    var generator = SplitMix64(seed: 5)
    let town = try place(53.3, -6.25)
    for _ in 0..<100_000 {
      let centre = moved(
        town, east: Double.random(in: -50_000...50_000, using: &generator),
        north: Double.random(in: -50_000...50_000, using: &generator))
      _ = try rig.add(.circle(centre, radius: 100))
    }
    #expect(Double(rig.monitor.memory) / 100_000 <= 200, "\(rig.monitor.memory / 100_000) bytes")
    for step in 0..<500 { try rig.see(moved(town, east: Double(step) * 15, north: 0), every: 1) }
    // 10 for each square kilometre, so 0.3 hold a point; the first fix looks at all that is new without
    // judging it.
    let judged = Double(rig.monitor.statistics.judged) / 500
    #expect(judged < 3, "\(judged) fences for each fix")
    #expect(!rig.told.isEmpty)
  }

  // R-LOC-14
  @Test func theNextSampleComesBeforeAnyBorderCan() throws {
    let home = try place(53.3, -6.25)
    var rig = try MonitorRig()
    #expect(try rig.monitor.nextSample() == nil)
    _ = try rig.add(.circle(home, radius: 100))
    #expect(try rig.monitor.nextSample() == rig.monitor.now)
    try rig.see(moved(home, east: 20_100, north: 0), times: 2, every: 1)
    var policy = SamplingPolicy()
    func wait(_ policy: SamplingPolicy) throws -> Double {
      try #require(try rig.monitor.nextSample(policy)).seconds - rig.time
    }
    // 20 km at 10 m/s are more than the longest wait.
    #expect(try wait(policy) == 600)
    policy.longest = .seconds(86_400)
    #expect(try abs(wait(policy) - (20_000 - 15) / 10) < 1)
    policy.leastSpeed = 100
    #expect(try abs(wait(policy) - (20_000 - 15) / 100) < 1)
    // At the border, where nothing is sure.
    try rig.see(moved(home, east: 3000, north: 0), every: 3600)
    try rig.see(moved(home, east: 100, north: 0), every: 3600)
    #expect(try wait(SamplingPolicy()) == 1)
    policy.shortest = .seconds(5)
    #expect(try wait(policy) == 5)
    policy.haste = 0
    #expect(throws: LocationError.self) { try rig.monitor.nextSample(policy) }
  }

  /// Neighbours, index and safeRadius stretches only save work.
  // R-GEO-01, R-LOC-14
  @Test(arguments: [1, 2, 3] as [UInt64]) func noFenceIsMissedForTheOthers(seed: UInt64) throws {
    var generator = SplitMix64(seed: seed)
    let town = try place(53.3, -6.25)
    func somewhere(_ metres: Double) -> Coordinate {
      moved(
        town, east: Double.random(in: -metres...metres, using: &generator),
        north: Double.random(in: -metres...metres, using: &generator))
    }
    func region() throws -> Region {
      let radius = [30.0, 100, 100, 500, 20_000][Int.random(in: 0..<5, using: &generator)]
      return try .circle(somewhere(radius < 1000 ? 3000 : 40_000), radius: radius)
    }
    var together = try RegionMonitor()
    var alone: [FenceID: (monitor: RegionMonitor, fence: FenceID, region: Region)] = [:]
    func add(_ region: Region) throws {
      var monitor = try RegionMonitor()
      let fence = try monitor.add(Fence(region))
      alone[try together.add(Fence(region))] = (monitor, fence, region)
    }
    for _ in 0..<400 { try add(try region()) }
    var here = town
    for second in 1...1500 {
      // Along, with a jump of some kilometres now and then, and fences that come and go.
      here = second % 300 == 0 ? somewhere(30_000) : moved(here, east: 12, north: 9)
      if second % 300 == 150 { here = town }
      // Not with a jump, which a new monitor takes for its beginning.
      if second % 40 == 7 {
        try add(try region())
        let gone = try #require(alone.keys.min { ($0.slot, $0.generation) < ($1.slot, $1.generation) })
        try together.remove(gone)
        alone[gone] = nil
      }
      let deviation = [3.0, 10, 60][second % 3]
      let fix = try fix(here, deviation: deviation, at: Double(second) * 60)
      let told = Set(together.update(fix).map { "\($0.fence) \($0.kind)" })
      var expected: Set<String> = []
      var nearest = Neighbourhood.horizon
      for id in alone.keys {
        for crossing in alone[id]?.monitor.update(fix) ?? [] { expected.insert("\(id) \(crossing.kind)") }
        nearest = min(nearest, alone[id]?.monitor.nearestBorder() ?? nearest)
      }
      #expect(told == expected, "seed \(seed), fix \(second)")
      #expect(abs(together.nearestBorder() - nearest) < 1e-6, "seed \(seed), fix \(second)")
    }
    #expect(together.statistics.judged < 60 * 1500)
  }

  // R-LOC-14
  @Test func aPatientSamplerComesLaterButLooksIntoWhatLiesAhead() throws {
    let home = try place(53.3, -6.25)
    var policy = SamplingPolicy()
    policy.patience = .seconds(30)
    /// Seconds to the next sample of a device that goes east at 20 m/s, 300 m before the middle of a fence.
    func wait(aside: Double, radius: Double = 100, east: Double = 20) throws -> Double {
      var monitor = try RegionMonitor()
      _ = try monitor.add(Fence(.circle(moved(home, east: 300, north: aside), radius: radius)))
      for second in [0.0, 10] {
        let there = moved(home, east: east * (second - 10), north: 0)
        _ = monitor.update(try fix(there, at: second + 1, speed: 20))
      }
      return try #require(try monitor.nextSample(policy)).seconds - 11
    }
    // 200 m to the border less the error, at 30 m/s, and the patience; the way through is 10 s long.
    #expect(try abs(wait(aside: 500) - (Double(500 * 500 + 300 * 300).squareRoot() - 115) / 30 - 30) < 0.5)
    #expect(try abs(wait(aside: 0) - (300 + 50) / 20) < 0.5)
    #expect(try abs(wait(aside: 60) - (300 + 40) / 20) < 0.5)
    // Not what is grazed or lies behind, nor where it is still inside then.
    #expect(try wait(aside: 99.7) > 30 && wait(aside: 0, east: -20) > 30)
    policy.patience = .seconds(10)
    #expect(try abs(wait(aside: 0, radius: 250) - (35.0 / 30 + 10)) < 0.5)
    policy.patience = .zero
    #expect(try abs(wait(aside: 0) - 185.0 / 30) < 0.1)
    policy.patience = .seconds(601)
    #expect(throws: LocationError.self) { try wait(aside: 0) }
  }

  // R-LOC-14
  @Test func speedDecidesHowSoonTheNextSampleIs() throws {
    let home = try place(53.3, -6.25)
    var monitor = try RegionMonitor()
    _ = try monitor.add(Fence(.circle(home, radius: 100)))
    let there = moved(home, east: 6100, north: 0)
    // Nothing says a speed at first.
    _ = monitor.update(try fix(there, at: 1))
    #expect(try abs(#require(try monitor.nextSample()).seconds - 1 - 5985 / 45) < 1)
    var assumed = SamplingPolicy()
    assumed.assumedSpeed = 60
    #expect(try abs(#require(try monitor.nextSample(assumed)).seconds - 1 - 5985 / 90) < 1)
    _ = monitor.update(try fix(there, at: 2, speed: 40))
    #expect(try abs(#require(try monitor.nextSample()).seconds - 2 - 5985 / 60) < 1)
    var hasty = SamplingPolicy()
    hasty.haste = 3
    #expect(try abs(#require(try monitor.nextSample(hasty)).seconds - 2 - 5985 / 120) < 1)
  }

  // R-LOC-14
  @Test func farFromFencesHardlyAnythingIsSampledAndNothingIsMissed() throws {
    // A drive of 60 km at 20 m/s past 12 fences, seen only when a sample is due.
    let start = try place(53.3, -6.25)
    var rig = try MonitorRig()
    for number in 1...12 {
      _ = try rig.add(.circle(moved(start, east: Double(number) * 5000, north: 0), radius: 150))
    }
    var errors = NormalErrors(seed: 4)
    var used = 0
    var second = 1
    while second < 3200 {
      let (east, north) = errors.pair()
      let seen = moved(start, east: Double(second) * 20 + 5 * east, north: 5 * north)
      rig.told += rig.monitor.update(try fix(seen, at: Double(second), speed: 20))
      used += 1
      let next = try #require(try rig.monitor.nextSample())
      second = max(second + 1, Int(next.seconds.rounded(.down)))
    }
    #expect(rig.kinds.count(where: { $0 == .enter }) == 12 && rig.kinds.count(where: { $0 == .exit }) == 12)
    #expect(used < 3200 / 5, "\(used) fixes")
    for crossing in rig.told {
      // 20 m/s: the border is passed at a known second.
      let metres = crossing.at.seconds * 20
      let border = (metres / 5000).rounded() * 5000 + (crossing.kind == .enter ? -150 : 150)
      #expect(metres - border > -40 && metres - border < 200, "\(metres - border) m late")
    }
  }
}
