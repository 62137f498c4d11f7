/// The body of a background task: it begins once the task is granted, and can be cancelled from then on, or
/// before. For who has to name the work before he asks for the task.
package struct GrantedWork<Success: Sendable>: Sendable {
  private let work: Task<Success, any Error>
  private let grant: AsyncStream<Void>.Continuation

  /// - Parameter executor: `nil`: the default one.
  package init(
    on executor: (any TaskExecutor)? = nil, _ body: @escaping @Sendable () async throws -> Success
  ) {
    let (granted, grant) = AsyncStream.makeStream(of: Void.self)
    self.grant = grant
    work = Task(executorPreference: executor) {
      for await _ in granted {}
      try Task.checkCancellation()
      return try await body()
    }
  }

  /// The task was refused: nothing of the body runs.
  package func refuse() {
    work.cancel()
    grant.finish()
  }

  /// The task's time is over.
  package func cancel() { work.cancel() }

  /// Waits for the body's end.
  package var result: Result<Success, any Error> { get async { await work.result } }

  /// The task is granted: runs the body, which is cancelled with the caller.
  package func run() async -> Result<Success, any Error> {
    grant.finish()
    return await withTaskCancellationHandler {
      await work.result
    } onCancel: {
      work.cancel()
    }
  }
}
