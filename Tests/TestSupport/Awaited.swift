import Foundation
import Testing

/// A value that a task waits for: set by any thread, and given up after a minute or at the end of the test's
/// time.
public final class Awaited: @unchecked Sendable {
  // Sendable: what changes does so under the lock.
  private let lock = NSLock()
  private var hasCome: Bool?
  private var waiter: CheckedContinuation<Bool, Never>?

  public init() {}

  /// It has come.
  public func tell() { end(true) }

  private func end(_ hasCome: Bool) {
    let waiter = lock.withLock {
      if self.hasCome == nil { self.hasCome = hasCome }
      return self.waiter.take()
    }
    waiter?.resume(returning: hasCome)
  }

  /// Whether it came; for one task.
  public func wait() async -> Bool {
    let watch = Watchdog.shared.watch(for: .seconds(60)) { self.end(false) }
    defer { Watchdog.shared.unwatch(watch) }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { waiter in
        let known = lock.withLock {
          if hasCome == nil { self.waiter = waiter }
          return hasCome
        }
        if let known { waiter.resume(returning: known) }
      }
    } onCancel: {
      end(false)
    }
  }
}

/// Half a minute, or OPPORTUNE_TEST_PATIENCE in seconds, where the machine is slow.
public let patience = Duration.seconds(
  ProcessInfo.processInfo.environment["OPPORTUNE_TEST_PATIENCE"].flatMap { Int($0) } ?? 30)

/// Waits for what others bring about and tell nobody of, and leaves them the CPU. The test ends where that
/// takes half a minute, or OPPORTUNE_TEST_PATIENCE.
public func eventually(
  _ what: String, sourceLocation: SourceLocation = #_sourceLocation, _ condition: () async throws -> Bool
) async throws {
  let end = ContinuousClock.now + patience
  var looks = 0
  while try await !condition() {
    guard ContinuousClock.now < end, !Task.isCancelled else { throw NotCome(what: what, sourceLocation) }
    looks += 1
    // Most of it comes soon.
    if looks < 100 { await Task.yield() } else { try? await Task.sleep(for: .milliseconds(1)) }
  }
}

private struct NotCome: Error, CustomStringConvertible {
  let description: String

  init(what: String, _ place: SourceLocation) {
    description = "\(what) did not come about (\(place.fileID):\(place.line))"
  }
}
