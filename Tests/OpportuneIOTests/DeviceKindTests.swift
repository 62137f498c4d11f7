import TestSupport
import Testing

@testable import OpportuneIO

/// The I/O scheduler in front of two kinds of device, in virtual time. A rotating disk serves one request at
/// a time, and its head must move to each. A flash device serves eight at once, at any position. Both serve
/// in the order of arrival.
@Suite(.bounded) struct DeviceKindTests {
  enum Kind: CaseIterable {
    case rotating, solidState

    var servers: Int { self == .rotating ? 1 : 8 }

    /// Nanoseconds; half a turn of 7,200 a minute, and up to 8 ms for the head.
    func service(from: Int, to: Int) -> UInt64 {
      self == .rotating ? 4_170_000 + UInt64(abs(from - to)) * 8_000 : 80_000
    }

    var longest: UInt64 { service(from: 0, to: Simulation.tracks - 1) }

    /// How long is looked on, so that there are some thousand requests at least; between two of the
    /// foreground's.
    var length: UInt64 { self == .rotating ? 60_000_000_000 : 1_000_000_000 }
    var pause: UInt64 { self == .rotating ? 10_000_000 : 500_000 }
  }

  private struct Job {
    let app: Int
    let track: Int
    let queuedAt: UInt64
  }

  private struct Simulation {
    static let tracks = 1000

    let kind: Kind
    var scheduler: IOScheduler<Job>
    var now: UInt64 = 0
    var head = 0
    var inDevice: [IOScheduler<Job>.Grant] = []
    var served: [(end: UInt64, grant: IOScheduler<Job>.Grant)] = []
    var generator = SplitMix64(seed: 3)
    /// The foreground's, one at a time with a pause between.
    var latencies: [UInt64] = []
    var nextForeground: UInt64 = 0
    var backgroundCount = 0

    init(_ kind: Kind, _ policy: DevicePolicy) {
      self.kind = kind
      scheduler = IOScheduler(policy, now: 0)
      scheduler.addApp(0, state: .active)
      scheduler.addApp(1, state: .background)
    }

    mutating func submit(_ app: Int) {
      let job = Job(app: app, track: Int.random(in: 0..<Self.tracks, using: &generator), queuedAt: now)
      _ = scheduler.submit(job, app: app, cost: .init(bytes: 4096))
    }

    mutating func run(_ background: Int, until end: UInt64) {
      for _ in 0..<background { submit(1) }
      while now < end {
        if nextForeground <= now {
          submit(0)
          nextForeground = .max
        }
        while let grant = scheduler.next(now: now) { inDevice.append(grant) }
        serve()
        now = max(
          now + 1, min(nextForeground, served.map(\.end).min() ?? .max, scheduler.wakeTime(now: now) ?? .max))
        for (_, grant) in served.filter({ $0.end <= now }) { ended(grant) }
        served.removeAll { $0.end <= now }
      }
    }

    private mutating func serve() {
      while served.count < kind.servers, !inDevice.isEmpty {
        let grant = inDevice.removeFirst()
        served.append((now + kind.service(from: head, to: grant.item.track), grant))
        head = grant.item.track
      }
    }

    private mutating func ended(_ grant: IOScheduler<Job>.Grant) {
      scheduler.finished(grant, sentAt: now, queuedAt: grant.item.queuedAt, now: now)
      if grant.item.app == 0 {
        latencies.append(now - grant.item.queuedAt)
        nextForeground = now + kind.pause
      } else {
        backgroundCount += 1
        submit(1)
      }
    }
  }

  private func run(_ kind: Kind, _ policy: DevicePolicy, background: Int = 64) -> Simulation {
    var simulation = Simulation(kind, policy)
    simulation.run(background, until: kind.length)
    return simulation
  }

  /// Foreground waits for the one that the device has, at most, and for none where that serves more than one.
  // R-DISK-01, R-DISK-03
  @Test(arguments: Kind.allCases)
  func foregroundGoesFirst(kind: Kind) throws {
    let held = run(kind, DevicePolicy(ratio: .strict, depth: 64, cap: .fixed(1)))
    let free = run(kind, .uncontrolled)
    let latest = try #require(held.latencies.max())
    #expect(latest <= (kind == .rotating ? 2 : 1) * kind.longest)
    #expect(held.latencies.count > 1000 && held.backgroundCount > 0)
    let mean = { (times: [UInt64]) in Double(times.reduce(0, +)) / Double(times.count) }
    #expect(mean(free.latencies) > 3 * mean(held.latencies), "the device alone orders them otherwise")
  }

  /// Half of what the device gives background otherwise.
  // R-DISK-02, R-DISK-03
  @Test(arguments: Kind.allCases)
  func backgroundIsHeldToItsRate(kind: Kind) {
    var policy = DevicePolicy(ratio: .strict, depth: 64, cap: .fixed(4), yieldsToForeground: false)
    let free = run(kind, policy)
    let seconds = Int(kind.length / 1_000_000_000)
    let rate = free.backgroundCount / seconds / 2
    policy.operations = .init(perSecond: rate, burst: 1)
    let held = run(kind, policy)
    #expect(held.backgroundCount <= rate * seconds + 1)
    #expect(held.backgroundCount >= rate * seconds * 98 / 100)
  }
}
