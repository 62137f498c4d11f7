import Synchronization

/// A result that is being made, for those who wait for it.
struct Flight<Value: Sendable>: Sendable {
  let value: @Sendable () async throws -> Value
}

/// How a contender carries out work that others may come to wait for.
protocol EngineRuntime: Sendable {
  /// Runs `body` as work of `side`.
  ///
  /// - Parameter announce: is handed what others may wait for it by, before this returns: `body` may be over.
  func run<Value: Sendable>(
    _ side: Side, announce: (Flight<Value>) -> Void, _ body: @escaping @Sendable () async throws -> Value
  ) async throws -> Value
}

/// Runs it where the caller is; who waits is told, and lends nothing: what a program has without donation.
struct PlainRuntime: EngineRuntime {
  func run<Value: Sendable>(
    _ side: Side, announce: (Flight<Value>) -> Void, _ body: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    let promise = Promise<Value>()
    announce(Flight { try await promise.value() })
    do {
      let value = try await body()
      promise.fulfil(.success(value))
      return value
    } catch {
      promise.fulfil(.failure(error))
      throw error
    }
  }
}

/// A value that comes once.
final class Promise<Value: Sendable>: Sendable {
  private enum State: Sendable {
    case pending([CheckedContinuation<Value, any Error>])
    case done(Result<Value, any Error>)
  }

  private let state = Mutex<State>(.pending([]))

  func value() async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
      let result = state.withLock { state -> Result<Value, any Error>? in
        switch state {
        case .done(let result): return result
        case .pending(let waiting):
          state = .pending(waiting + [continuation])
          return nil
        }
      }
      if let result { continuation.resume(with: result) }
    }
  }

  /// Once.
  func fulfil(_ result: Result<Value, any Error>) {
    let waiting = state.withLock { state -> [CheckedContinuation<Value, any Error>] in
      guard case .pending(let waiting) = state else { return [] }
      state = .done(result)
      return waiting
    }
    for continuation in waiting { continuation.resume(with: result) }
  }
}
