import Synchronization

/// The requests of an app with a target: how many were answered, and how many of them late. Any thread; all
/// counters only grow.
final class RequestMeter: Sendable {
  // relaxed throughout: counters and a setting that order nothing. A reader may see a request as late before
  // it sees it as answered.
  private let target = Atomic<UInt64>(0)
  private let answered = Atomic<UInt64>(0)
  private let late = Atomic<UInt64>(0)
  private let close = Atomic<UInt64>(0)

  /// The 99th percentile that is aimed at, in nanoseconds; nil where there is no target now.
  var p99: UInt64? {
    let value = target.load(ordering: .relaxed)
    return value == 0 ? nil : value
  }

  var isWanted: Bool { p99 != nil }

  func setTarget(_ p99: UInt64?) { target.store(p99 ?? 0, ordering: .relaxed) }

  func count(_ nanoseconds: UInt64) {
    guard let p99 else { return }
    answered.wrappingAdd(1, ordering: .relaxed)
    if nanoseconds > p99 { late.wrappingAdd(1, ordering: .relaxed) }
    if Double(nanoseconds) > TargetPolicy.room * Double(p99) { close.wrappingAdd(1, ordering: .relaxed) }
  }

  var requests: TargetPolicy.Requests {
    TargetPolicy.Requests(
      answered: answered.load(ordering: .relaxed), late: late.load(ordering: .relaxed),
      close: close.load(ordering: .relaxed))
  }
}

extension AppRecord {
  /// The counters of the app's requests; nil until there was a target, unless `make`.
  func meter(orMake make: Bool) -> RequestMeter? {
    if let meter = requests.load() { return meter }
    return make ? requests.storeIfNil(RequestMeter()) : nil
  }
}
