import Foundation

/// Runs blocking code on a thread of its own: the language's pool has only one thread for each core, and the
/// code under test may need them.
public func onOwnThread<Success: Sendable>(
  _ body: @escaping @Sendable () throws -> Success
) async throws -> Success {
  try await withCheckedThrowingContinuation { continuation in
    Thread.detachNewThread { continuation.resume(with: Result(catching: body)) }
  }
}
