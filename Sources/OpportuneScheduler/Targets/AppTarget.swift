internal import COpportune
internal import OpportuneBase

/// How soon the requests of an app are to be answered; see ``App/target(_:)``.
public struct AppTarget: Sendable, Hashable {
  /// The accepted values of ``p99``: 100 µs to 60 s.
  public static let p99Range: ClosedRange<Duration> = .microseconds(100) ... .seconds(60)

  /// The time within which 99 of 100 requests are to be answered.
  public let p99: Duration

  /// 99 of 100 requests are to be answered within `p99`; ``p99Range``.
  public static func latency(p99: Duration) -> AppTarget { AppTarget(p99: p99) }
}

extension App {
  /// Sets how soon the app's requests are to be answered; nil removes the target.
  ///
  /// While more than one in a hundred of them take longer, fewer workers of background work run at once, one
  /// at least; while they are answered in time with room, more do, up to all. Background jobs that run when
  /// their number is lowered go on to the end of their slice. Without a target nothing is limited and nothing
  /// measured.
  ///
  /// What counts as a request the program says: ``request(since:isolation:_:)``,
  /// ``countRequest(lasting:)``. Several apps may have targets: then all are kept. A target counts while its
  /// app is above background and is not suspended. When it is removed, and no other counts, background has
  /// all of its workers again at once. ``SchedulerStatistics/backgroundShare`` says what was done and why,
  /// and so does the logger.
  ///
  /// - Throws: ``ConfigurationError`` with code `targetP99` if it is out of ``AppTarget/p99Range``. The
  ///   target is as before then.
  public func target(_ target: AppTarget?) throws(ConfigurationError) {
    if let target { try requireInRange(target.p99, AppTarget.p99Range, .targetP99) }
    guard let meter = core.record.meter(orMake: target != nil) else { return }
    meter.setTarget(target?.p99.unsignedNanoseconds)
    core.engine.monitor.post(.targeted(core.record))
  }

  /// Answers a request: what `body` takes counts for the app's target. Without one this is a call of `body`.
  ///
  /// - Parameters:
  ///   - intended: when the request was to begin, on ``clock``: when its client sent it, or would have sent
  ///     it. The time that it waited until this call then counts too. nil is now.
  ///   - isolation: `body` is called on the caller's actor.
  ///   - body: it counts though it throws.
  public func request<Answer, Failure: Error>(
    since intended: AppClock.Instant? = nil, isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws(Failure) -> Answer
  ) async throws(Failure) -> Answer {
    guard let meter = core.record.meter(orMake: false), meter.isWanted else { return try await body() }
    let begun = intended.map { UInt64(clamping: $0.nanoseconds) } ?? opp_now_ns()
    defer { meter.count(opp_now_ns().saturatingSubtract(begun)) }
    return try await body()
  }

  /// Counts a request that the program has measured itself, from its intended begin to its answer, for the
  /// app's target. Does nothing without one. Blocks nothing.
  public func countRequest(lasting duration: Duration) {
    core.record.meter(orMake: false)?.count(duration.unsignedNanoseconds)
  }
}

extension Scheduler {
  /// Holds background at one of the levels that targets move it to, where no app has a target: the bench
  /// compares what a target does with each of them. What ``BackgroundLevels`` has no level for is its top.
  package func holdBackground(at level: Int) { engine.monitor.post(.holdsBackground(level: level)) }
}
