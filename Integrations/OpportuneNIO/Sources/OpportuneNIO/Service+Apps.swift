import Hummingbird
import NIOConcurrencyHelpers
import Opportune
import ServiceLifecycle

/// A service that runs on an app: all of its tasks and their child tasks.
///
/// Around a Hummingbird application, it has the tasks of connections run on the app's workers, too, instead
/// of Swift's global pool, of which they would wait for a thread when other code has taken all:
///
/// ```swift
/// let group = ServiceGroup(
///   services: [SchedulerService(scheduler), ServiceOnApp(application, on: ui)],
///   gracefulShutdownSignals: [.sigterm], logger: logger)
/// ```
///
/// A suspended app's service stands still; a graceful shutdown resumes the app.
public struct ServiceOnApp: Service {
  private let service: any Service
  private let app: App

  public init(_ service: any Service, on app: App) {
    self.service = service
    self.app = app
  }

  public func run() async throws {
    try await withGracefulShutdownHandler {
      try await withTaskExecutorPreference(app.executor) { try await service.run() }
    } onGracefulShutdown: { [app] in
      app.resume()
    }
  }
}

/// What handlers leave to be done after their answers, and the service that waits for it.
///
/// A service group ends its services in the reverse of their order. So list the scheduler first, then this,
/// then the server: the server answers what it has accepted, then what was left is done, then the workers
/// end.
///
/// ```swift
/// let drain = AppDrain()
/// router.post("orders") { request, _ in
///   drain.task(on: mailer) { try await send(receipt) }
///   return HTTPResponse.Status.accepted
/// }
/// let group = ServiceGroup(services: [SchedulerService(scheduler), drain, application], logger: logger)
/// ```
///
/// Safe from any thread; blocks nothing.
public final class AppDrain: Service {
  private struct Left {
    let app: App
    let cancel: @Sendable () -> Void
  }

  private enum Stage {
    case open
    /// Apps are resumed.
    case draining
    /// Tasks are cancelled.
    case cancelling
  }

  private struct State {
    var next: UInt64 = 0
    /// Those whose task is being started have nil: the task may have ended before it could be noted.
    var left: [UInt64: Left?] = [:]
    var stage = Stage.open
    var waiters: [UInt64: AsyncStream<Void>.Continuation] = [:]
  }

  private let state = NIOLockedValueBox(State())
  private let limit: Duration

  /// - Parameter limit: how long a shutdown waits for what was left; then that is cancelled, and waited for
  ///   once more as long. Give the service after it, the scheduler's, time of its own.
  public init(within limit: Duration = .seconds(10)) { self.limit = max(limit, .zero) }

  /// How many tasks have not ended.
  public var count: Int { state.withLockedValue { $0.left.count } }

  /// Starts a task on `app`, which the shutdown waits for. While it drains, tasks may be started as well;
  /// once it cancels, they are cancelled at once.
  ///
  /// - Parameters:
  ///   - app: where it runs.
  ///   - priority: nil is the caller's.
  ///   - operation: what is left to be done.
  @discardableResult
  public func task<Success: Sendable>(
    on app: App, priority: TaskPriority? = nil,
    operation: sending @escaping @isolated(any) () async throws -> Success
  ) -> AppTask<Success, any Error> {
    let number = state.withLockedValue { state in
      state.next += 1
      state.left[state.next] = .some(nil)
      return state.next
    }
    let task = app.task(priority: priority, operation: operation)
    // A task of its own that only waits: it also sees the end of one that was cancelled before it began.
    Task.detached {
      _ = await task.task.result
      self.end(number)
    }
    let stage = state.withLockedValue { state in
      if state.left[number] != nil { state.left[number] = Left(app: app) { task.cancel() } }
      return state.stage
    }
    // The shutdown has not seen it.
    if stage != .open { app.resume() }
    if stage == .cancelling { task.cancel() }
    return task
  }

  private func end(_ number: UInt64) {
    let waiters = state.withLockedValue { state -> [AsyncStream<Void>.Continuation] in
      state.left[number] = nil
      guard state.left.isEmpty else { return [] }
      defer { state.waiters = [:] }
      return Array(state.waiters.values)
    }
    for waiter in waiters { waiter.finish() }
  }

  /// Waits for the graceful shutdown, or the caller's cancellation, and then for what was left; its apps are
  /// resumed for that.
  ///
  /// - Throws: ``AppDrainError`` with code `tasksStillRunning` if tasks had not ended after they were
  ///   cancelled.
  public func run() async throws {
    try? await gracefulShutdown()
    // Not cancelled itself, whoever cancelled this: it has a limit of its own.
    try await Task { try await drain() }.value
  }

  private func drain() async throws {
    let apps = state.withLockedValue { state in
      state.stage = .draining
      return state.left.values.compactMap { $0?.app }
    }
    for app in apps { app.resume() }
    if await isEmpty(within: limit) { return }
    let cancels = state.withLockedValue { state in
      state.stage = .cancelling
      return state.left.values.compactMap { $0?.cancel }
    }
    for cancel in cancels { cancel() }
    if await isEmpty(within: limit) { return }
    let names = state.withLockedValue { Set($0.left.values.compactMap { $0?.app.name }) }.sorted()
    throw AppDrainError(
      code: .tasksStillRunning,
      message: "\(count) tasks of these apps had not ended \(limit) after they were cancelled: "
        + names.map { "\"\($0)\"" }.joined(separator: ", "))
  }

  private func isEmpty(within limit: Duration) async -> Bool {
    let (ended, waiter) = AsyncStream.makeStream(of: Void.self)
    let number = state.withLockedValue { state -> UInt64? in
      guard !state.left.isEmpty else { return nil }
      state.next += 1
      state.waiters[state.next] = waiter
      return state.next
    }
    guard let number else { return true }
    return await withTaskGroup(of: Void.self) { group in
      group.addTask { for await _ in ended {} }
      group.addTask { try? await Task.sleep(for: limit) }
      await group.next()
      group.cancelAll()
      return state.withLockedValue { state in
        state.waiters[number] = nil
        return state.left.isEmpty
      }
    }
  }
}

/// What ``AppDrain`` could not do.
public struct AppDrainError: Error, Sendable, Equatable, CustomStringConvertible {
  public enum Code: Sendable, Hashable {
    /// Tasks did not end, though they were cancelled.
    case tasksStillRunning
  }

  public let code: Code
  /// For people: how many, of which apps.
  public let message: String

  public static func == (lhs: Self, rhs: Self) -> Bool { lhs.code == rhs.code }
  public var description: String { message }
}
