import OpportuneScheduler

/// Calls into an app for which nobody waits longer than a limit, on a place of their own in front: neither
/// the host's strand nor its workers are held up by what does not return.
struct TimedCalls: Sendable {
  struct Overrun: Error, CustomStringConvertible {
    let limit: Duration
    var description: String { "it took longer than \(limit)" }
  }

  let scheduler: Scheduler
  /// Where the time is kept, and the place of calls for which the scheduler has no other.
  let place: App

  /// What `call` answers. Where that takes longer than `limit` it runs on in background, and what it answers
  /// is dropped.
  ///
  /// - Throws: what `call` throws, or ``Overrun``.
  func answer<Answer: Sendable>(
    within limit: Duration, priority: TaskPriority, of call: @escaping @Sendable () throws -> Answer
  ) async throws -> Answer {
    let own = try? scheduler.makeApp(named: "handing over", band: .foreground)
    let (answers, answered) = AsyncStream.makeStream(of: Result<Answer, any Error>.self)
    Task(executorPreference: (own ?? place).executor, priority: priority) {
      _ = answered.yield(Result { try call() })
    }
    let timer = Task(executorPreference: place.executor, priority: .high) { [clock = place.clock] in
      guard (try? await clock.sleep(for: limit)) != nil else { return }
      answered.yield(.failure(Overrun(limit: limit)))
      try? own?.setBand(.background)
    }
    defer { timer.cancel() }
    for await answer in answers { return try answer.get() }
    throw CancellationError()
  }
}
