import Foundation

/// Runs what blocks its thread on one of its own: the language's pool has as many as the machine has cores,
/// and what is tested may need them.
public func onOwnThread<Success: Sendable>(
  _ body: @escaping @Sendable () throws -> Success
) async throws -> Success {
  try await withCheckedThrowingContinuation { continuation in
    Thread.detachNewThread { continuation.resume(with: Result(catching: body)) }
  }
}
