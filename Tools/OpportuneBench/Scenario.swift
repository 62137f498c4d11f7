import OpportuneBase

/// A load, as a value: what the foreground does, beside what. Times are in microseconds.
package struct Scenario: Sendable, Hashable {
  /// As the tables show it, and `--scenario` takes it.
  package let name: String
  /// One line for `--help`.
  package let summary: String
  /// Streams of interactive jobs on an open-loop schedule.
  let streams: [Stream]
  /// CPU-bound jobs of the background app, each link submitting the next.
  let background: Chains?
  /// CPU-bound jobs of the foreground app.
  let hogs: Chains?
  /// Foreground jobs in a blocking read of a second each.
  let blockers: Int
  /// Interactive jobs and background jobs also allocate, map, fault and unmap.
  let touchesMemory: Bool
  /// Interactive jobs and background jobs take one lock, which these hold for 200 us at a time.
  let sharesLock: Bool
  /// Repeats where the user names none; scenarios with jobs of a second need longer windows.
  let defaultRepeats: Int

  /// Interactive jobs that arrive whether or not earlier ones have finished.
  struct Stream: Sendable, Hashable {
    /// Mean time between arrivals, and how far each may lie to either side, uniformly.
    var interval: Double
    var jitter: Double
    /// CPU time of one job.
    var work: Double
    /// Jobs per arrival.
    var burst = Burst.one
    /// Submitted by the second foreground app.
    var isSecondApp = false
  }

  /// How many jobs arrive together.
  enum Burst: Sendable, Hashable {
    case one
    case onePerCore
  }

  /// Chains of CPU-bound jobs.
  struct Chains: Sendable, Hashable {
    var count: Int
    /// CPU time of one link.
    var link: Double
    var variant = Variant.linked
  }

  /// Who submits the next link of a chain.
  enum Variant: String, Sendable, Hashable {
    /// The link before.
    case linked
    /// An outside thread of the chain's own, when a link has ended.
    case outside
    /// Nobody: one task runs all links and yields between them.
    case yielding
    /// Nobody: each chain is one link, and all are submitted at the beginning.
    case once
    /// The link before; the first by the thread of the interactive jobs, ``head`` before the first of those.
    case sameThread

    /// How long the chains run before the interactive jobs begin, in nanoseconds.
    var head: Nanoseconds { self == .sameThread ? 1_000_000_000 : 30_000_000 }
  }

  /// The foreground can hurt itself: hogs or blocking jobs in its own app.
  var hurtsItself: Bool { hogs != nil || blockers > 0 }

  /// Something runs beside the interactive jobs that also runs alone, to be compared with.
  var hasBackground: Bool { background != nil || hogs != nil }

  /// The contender whose p99 the others are divided by.
  var limitName: String { hurtsItself ? "limit-told" : "limit-idle" }

  /// Whether `kind` has something to say here.
  func admits(_ kind: ContenderKind) -> Bool {
    // Ten thousand threads at once measure the machine's limits, not a contender.
    if hogs?.variant == .once, kind.name == "thread-per-job" { return false }
    return switch kind.place {
    case .everywhere, .whereNamed: true
    case .onlyWithHogs: hurtsItself
    case .notWithHogs: hogs == nil
    }
  }

  private init(
    _ name: String, _ summary: String, streams: [Stream] = [.light], background: Chains? = nil,
    hogs: Chains? = nil, blockers: Int = 0, touchesMemory: Bool = false, sharesLock: Bool = false,
    defaultRepeats: Int = 5
  ) {
    self.name = name
    self.summary = summary
    self.streams = streams
    self.background = background
    self.hogs = hogs
    self.blockers = blockers
    self.touchesMemory = touchesMemory
    self.sharesLock = sharesLock
    self.defaultRepeats = defaultRepeats
  }
}

extension Scenario.Stream {
  /// 20 us of work every 2 ± 1 ms.
  static let light = Self(interval: 2_000, jitter: 1_000, work: 20)
  /// 0.9 ms of work every 2 ms.
  static let heavy = Self(interval: 2_000, jitter: 0, work: 900)
}

extension Scenario {
  /// What runs where none is named.
  package static let standard = "heavy-20ms"

  /// Every scenario, in the order of the tables.
  package static let all: [Scenario] =
    [
      light("light-200us", link: 200), light("light-20ms", link: 20_000),
      light("light-1s", link: 1_000_000, repeats: 2),
      Scenario(
        "heavy-20ms", "0.9 ms of foreground work every 2 ms beside ten chains of 20 ms jobs (the default)",
        streams: [.heavy], background: Chains(count: 10, link: 20_000)),
    ] + hogs("hog-20ms", link: 20_000, repeats: 5) + hogs("hog-1s", link: 1_000_000, repeats: 2) + [
      Scenario(
        "hog-1s-same-thread",
        "light foreground beside ten chains of jobs of 1 s of its own app, begun by the same thread a second before",
        hogs: Chains(count: 10, link: 1_000_000, variant: .sameThread), defaultRepeats: 2),
      chains("chains-20us", link: 20), chains("chains-200us", link: 200),
      chains("chains-5ms", count: 12, link: 5_000), chains("chains-9ms", count: 12, link: 9_000),
      Scenario(
        "hogs-10000",
        "light foreground beside 10,000 CPU-bound jobs of 20 ms of its own app, submitted at once",
        hogs: Chains(count: 10_000, link: 20_000, variant: .once), defaultRepeats: 2),
      Scenario(
        "block-1s", "light foreground beside twelve jobs of its own app in a blocking read of 1 s",
        blockers: 12, defaultRepeats: 2),
      Scenario(
        "full", "foreground busy on all cores, both sides allocating, mapping and faulting",
        streams: [Stream(interval: 2_000, jitter: 500, work: 1_400, burst: .onePerCore)],
        background: Chains(count: 10, link: 20_000), touchesMemory: true),
      Scenario(
        "inversion",
        "light foreground beside ten chains of 2 ms jobs; both allocate, map, fault, unmap and free",
        background: Chains(count: 10, link: 2_000), touchesMemory: true),
      Scenario(
        "shared",
        "light foreground and ten background chains of 2 ms jobs take one lock, beside foreground hogs of 1 s",
        background: Chains(count: 10, link: 2_000), hogs: Chains(count: 4, link: 1_000_000), sharesLock: true,
        defaultRepeats: 2),
      Scenario(
        "mixed", "two foreground apps, hogs, blocking jobs, memory traffic and a background app",
        streams: [.light, Stream(interval: 4_000, jitter: 2_000, work: 500, isSecondApp: true)],
        background: Chains(count: 10, link: 20_000), hogs: Chains(count: 4, link: 20_000), blockers: 2,
        touchesMemory: true),
    ]

  private static func light(_ name: String, link: Double, repeats: Int = 5) -> Scenario {
    Scenario(
      name, "20 us of foreground work every 2 ± 1 ms beside ten background chains of jobs of that length",
      background: Chains(count: 10, link: link), defaultRepeats: repeats)
  }

  /// Jobs too short to be hogs: what waits among them may wait for its turn, and no longer.
  private static func chains(_ name: String, count: Int = 10, link: Double) -> Scenario {
    Scenario(
      name,
      "light foreground beside \(count) chains of jobs of its own app, each of that length, shorter than a quantum",
      hogs: Chains(count: count, link: link))
  }

  private static func hogs(_ name: String, link: Double, repeats: Int) -> [Scenario] {
    let text = "light foreground beside twelve chains of CPU-bound jobs of its own app"
    return [
      Scenario(
        name, "\(text), each link submitted by the one before",
        hogs: Chains(count: 12, link: link), defaultRepeats: repeats),
      Scenario(
        "\(name)-outside", "\(text), each link submitted from outside",
        hogs: Chains(count: 12, link: link, variant: .outside), defaultRepeats: repeats),
      Scenario(
        "\(name)-yielding", "\(text), each chain one task that yields",
        hogs: Chains(count: 12, link: link, variant: .yielding), defaultRepeats: repeats),
    ]
  }

  /// The scenarios that `--scenario` names: several with commas, `all` for every one, `NAME-linked` for the
  /// plain name of a hog scenario. Without any, ``standard``.
  package static func select(_ arguments: [String]) throws(BenchError) -> [Scenario] {
    let names = arguments.flatMap {
      $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
    }
    if names.isEmpty { return all.filter { $0.name == standard } }
    var chosen: [Scenario] = []
    for name in names {
      let plain = name.hasSuffix("-linked") ? String(name.dropLast("-linked".count)) : name
      let found = name == "all" ? all : all.filter { $0.name == plain && (plain == name || $0.hogs != nil) }
      guard !found.isEmpty else {
        throw .invalid(
          "--scenario", name, expected: "one of \(all.map(\.name).joined(separator: ", ")), or all")
      }
      for scenario in found where !chosen.contains(scenario) { chosen.append(scenario) }
    }
    return chosen
  }
}
