import OpportuneScheduler

/// Calls into an app with a time limit, in a foreground app of their own. A call that does not return
/// occupies neither the host's strand nor its workers.
struct TimedCalls: Sendable {
  struct Overrun: Error, CustomStringConvertible {
    let limit: Duration
    var description: String { "it took longer than \(limit)" }
  }

  let scheduler: Scheduler
  /// The clock's app, which also runs calls for which the scheduler has no room for another app.
  let place: App

  /// The result of `call`. If it exceeds `limit`, it continues in the background, and its result is dropped.
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
