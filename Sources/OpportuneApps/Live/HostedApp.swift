import OpportuneScheduler
import Synchronization

/// One life of an app in this process: from its launch until its end. A later launch makes another object.
///
/// It does not retain its host, and ends with it; see ``AppHost``.
///
/// All members may be used from any thread.
public final class HostedApp: Sendable {
  /// The app's id; the same in each of its lives.
  public let id: AppID
  /// The manifest as registered, with the user's settings applied.
  public let manifest: Manifest
  /// The app in the scheduler. Only the host suspends it and moves it between bands.
  ///
  /// Tasks that prefer `app.executor` belong to it as well, but cannot be refused; tasks of
  /// `task(name:priority:operation:)` can.
  public let app: App
  private let home: WeakHost
  let life: UInt64
  /// Twice the number of accepted closures and tasks that have not ended. The lowest bit is set when the life
  /// is over.
  private let open = Atomic<UInt>(0)
  private let tasks = OpenTasks()
  /// For brokers that read the classes on their own threads.
  package let deviceClasses = DeviceClasses()

  init(id: AppID, manifest: Manifest, app: App, host: WeakHost, life: UInt64) {
    self.id = id
    self.manifest = manifest
    self.app = app
    home = host
    self.life = life
  }

  /// - Throws: ``HostError``: `terminated` once the host was released.
  func host() throws(HostError) -> AppHost {
    guard let host = home.value else { throw HostError(.terminated(manifest.identifier)) }
    return host
  }

  /// Queues a closure. It runs once; if the app is terminated first, `cancelled` is called once instead.
  ///
  /// - Throws: ``HostError``: `terminated`, or the scheduler's error; nothing is queued then.
  public func submit(
    priority: TaskPriority? = nil, onCancel cancelled: (@Sendable () -> Void)? = nil,
    _ body: @escaping @Sendable () -> Void
  ) throws(HostError) {
    try enter()
    do {
      try app.submit(
        priority: priority,
        onCancel: {
          cancelled?()
          self.leave()
        },
        {
          if self.isOver { cancelled?() } else { body() }
          self.leave()
        })
    } catch {
      leave()
      throw HostError(.scheduler(error))
    }
  }

  /// Starts a task on the app's executor, cancelled when the app is terminated.
  ///
  /// - Throws: ``HostError``: `terminated`.
  @discardableResult
  public func task<Success: Sendable>(
    name: String? = nil, priority: TaskPriority? = nil,
    operation: @escaping @Sendable () async -> Success
  ) throws(HostError) -> AppTask<Success, Never> {
    try enter()
    let entry = OpenTasks.Entry()
    let task = app.task(name: name, priority: priority) {
      defer {
        entry.close()
        self.leave()
      }
      return await operation()
    }
    cancelAtEnd(entry) { task.cancel() }
    return task
  }

  /// Starts a task that may throw on the app's executor, cancelled when the app is terminated.
  ///
  /// - Throws: ``HostError``: `terminated`.
  @discardableResult
  public func task<Success: Sendable>(
    name: String? = nil, priority: TaskPriority? = nil,
    operation: @escaping @Sendable () async throws -> Success
  ) throws(HostError) -> AppTask<Success, any Error> {
    try enter()
    let entry = OpenTasks.Entry()
    let task = app.task(name: name, priority: priority) {
      defer {
        entry.close()
        self.leave()
      }
      return try await operation()
    }
    cancelAtEnd(entry) { task.cancel() }
    return task
  }

  private func cancelAtEnd(_ entry: OpenTasks.Entry, _ cancel: @escaping @Sendable () -> Void) {
    tasks.add(entry, cancel: cancel)
    if isOver { tasks.cancelAll() }
  }

  // MARK: Background tasks

  /// Begins a background task: the app keeps running in the background until the task is ended or its time is
  /// up. ``endTask(_:)`` ends it; ``withBackgroundTask(_:_:)`` ends its task by itself. (R-TASK-12)
  ///
  /// - Parameter expired: called once, on the app's executor, when the time is up, with the task, which it
  ///   should end: an app that has not ended it ``TaskPolicy/handlerTime`` later is terminated, unless
  ///   ``TaskPolicy/unfinished`` says otherwise.
  /// - Throws: ``HostError``: `refused`.
  public func beginTask(
    _ kind: TaskKind = .other, onExpiration expired: @escaping @Sendable (TaskID) async -> Void
  ) async throws(HostError) -> TaskID {
    try await host().beginTask(kind, self, AppHost.Expiration(handler: expired, endsTask: false))
  }

  /// Begins a background task whose end is elsewhere. The handler is told that time is up, and no more: the
  /// rest is as ``beginTask(_:onExpiration:)`` with the task says, termination included. (R-TASK-12)
  ///
  /// - Parameter expired: called once, on the app's executor, when the time is up.
  /// - Throws: ``HostError``: `refused`.
  public func beginTask(
    _ kind: TaskKind = .other, onExpiration expired: @escaping @Sendable () async -> Void = {}
  ) async throws(HostError) -> TaskID {
    try await beginTask(kind) { _ in await expired() }
  }

  /// Ends a background task.
  ///
  /// - Throws: ``HostError``: the task is not open.
  public func endTask(_ task: TaskID) async throws(HostError) { try await host().post(.endTask(task), self) }

  /// Runs `body` as a background task. The task begins before the body and ends after it; the body is
  /// cancelled when the time is up. (R-TASK-12, R-RULE-10)
  ///
  /// - Throws: ``HostError``: `refused`, and what the body throws.
  public func withBackgroundTask<Success: Sendable>(
    _ kind: TaskKind = .other, _ body: @escaping @Sendable () async throws -> Success
  ) async throws -> Success {
    let work = GrantedWork(on: app.executor, body)
    let task: TaskID
    do {
      let expired = AppHost.Expiration(handler: { _ in work.cancel() }, endsTask: true)
      task = try await host().beginTask(kind, self, expired)
    } catch {
      work.refuse()
      throw error
    }
    let result = await work.run()
    try? await endTask(task)  // the app may have been terminated meanwhile
    return try result.get()
  }

  /// How long the app may still run in the background; `nil` if there is no limit. (R-TASK-15)
  public func backgroundTimeRemaining() async -> Duration? {
    guard let host = home.value else { return .zero }
    return await host.timeRemaining(of: id)
  }

  /// Whether multitasking is supported. Calling it satisfies R-RULE-11. (R-LIFE-21)
  public func isMultitaskingSupported() async -> Bool {
    guard let host = home.value else { return false }
    try? await host.post(.compliance(.asksForMultitasking), self)
    return host.policy.supportsMultitasking
  }

  /// Reports to the host what the app does or asks for: audio, locks, hardware, local notifications,
  /// compliance.
  ///
  /// - Throws: ``HostError``; nothing was changed.
  public func post(_ action: AppAction) async throws(HostError) { try await host().post(action, self) }

  /// Tells the host something that happens to this life of the app.
  package func post(_ event: AppEvent) async throws(HostError) { try await host().post(event, self) }

  /// Requests hardware. The app keeps it until it posts `release` or its state forbids it. (R-HW-01)
  ///
  /// - Returns: whether the app has the hardware. A request for the GPU in the background may terminate the
  ///   app. (R-GFX-02)
  /// - Throws: ``HostError``: the app does not execute.
  public func request(_ hardware: Hardware) async throws(HostError) -> Bool {
    let host = try host()
    try await host.post(.request(hardware), self)
    return await host.view(of: id)?.grants.contains(hardware) ?? false
  }

  /// The current state.
  public func state() async -> LifecycleState { await home.value?.state(of: id) ?? .notRunning }

  // MARK: End

  /// Calls `body` once when this life ends, on the host's strand; it must not block. If the life has ended,
  /// it is called at once.
  package func atEnd(_ body: @escaping @Sendable () -> Void) {
    tasks.add(OpenTasks.Entry(), cancel: body)
    if isOver { tasks.cancelAll() }
  }

  // sequentiallyConsistent: a task's entry is added before this load. `end` takes the entries after it has
  // set the bit.
  var isOver: Bool { open.load(ordering: .sequentiallyConsistent) & 1 != 0 }

  /// Counts work of the app that runs elsewhere, until the returned function is called. Returns `nil` if the
  /// life is over.
  func countIn() -> (@Sendable () -> Void)? {
    guard (try? enter()) != nil else { return nil }
    return { self.leave() }
  }

  private func enter() throws(HostError) {
    // acquiringAndReleasing: pairs with `end`, which counts every caller that enters before it.
    guard open.add(2, ordering: .acquiringAndReleasing).oldValue & 1 == 0 else {
      leave()
      throw HostError(.terminated(manifest.identifier))
    }
  }

  private func leave() {
    // releasing: a thread that finds the count at zero sees what the job did.
    guard open.subtract(2, ordering: .acquiringAndReleasing).newValue == 1 else { return }
    guard let host = home.value else { return }
    Task { [id, life] in await host.isEmpty(id, life) }
  }

  /// Ends the life: refuses new work, cancels tasks and queued closures. Returns true if nothing is open.
  func end() -> Bool {
    // sequentiallyConsistent: precedes the read of the tasks; pairs with `isOver`.
    let before = open.bitwiseOr(1, ordering: .sequentiallyConsistent).oldValue
    tasks.cancelAll()
    return before & ~1 == 0
  }
}

/// Why a call on an app or its host was refused.
///
/// Two errors are equal when their codes are; the message is for people. More codes may be added later.
public struct HostError: Error, Sendable, Equatable {
  /// The kind of error.
  public enum Code: Sendable, Equatable {
    /// The app with this name was terminated.
    case terminated(String)
    /// Background time was refused. (R-TASK-16)
    case refused(TaskRefusal)
    /// The event is not allowed now.
    case apps(AppsError)
    /// The policy was refused.
    case policy(PolicyError)
    /// The scheduler returned this error.
    case scheduler(SchedulerError)
    /// The requested memory is not available; the reason.
    case memory(String)
    /// The requested audio is not possible; the reason.
    case audio(String)
    /// The host's time is the machine's, and is not moved by hand.
    case time
  }

  /// The kind of error.
  public let code: Code

  package init(_ code: Code) { self.code = code }

  /// For people: what was asked, and what prevented it.
  public var message: String {
    switch code {
    case .terminated(let name): "app \"\(name)\" was terminated and accepts nothing"
    case .refused(let reason): "time in background was refused: \(reason.rawValue)"
    case .apps(let error): "\(error)"
    case .policy(let error): "\(error)"
    case .scheduler(let error): "\(error)"
    case .memory(let message), .audio(let message): message
    case .time:
      "the host goes by the machine's clock, which cannot be advanced; AppHost.inVirtualTime() makes one that waits for it"
    }
  }
}

extension HostError: CustomStringConvertible {
  public var description: String { message }
}
