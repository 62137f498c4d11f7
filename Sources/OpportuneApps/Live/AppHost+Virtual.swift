internal import OpportuneBase
import OpportuneScheduler

/// Time by hand, for tests of programs: apps of this process live as ever, but no time passes for them unless
/// the test says so.
extension AppHost {
  /// What a host in virtual time knows of what is on its way.
  struct VirtualTime {
    /// What the host does itself later, apart from the system's deadlines.
    var agenda = TimeQueue<Moment, @Sendable (isolated AppHost) -> Void>()
    /// How many tasks of the host follow the effects that were carried out.
    var followUps = 0
    /// Ended lives whose code was reported not to end.
    var unending: Set<UInt64> = []
    /// Who waits until the host has settled, by number.
    var waiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
    var waitersMade: UInt64 = 0
  }

  /// Makes a host for tests, whose time is moved by hand: it begins with ``Moment/zero`` and goes on by
  /// ``advance(by:waitingForApps:)`` alone. All else is as with any other host: delegates are called, apps
  /// are suspended and terminated, by the same rules.
  ///
  /// ```swift
  /// let host = try AppHost.inVirtualTime()
  /// let notes = try await host.launch(Manifest(identifier: "notes")) { _ in Notes() }
  /// try await host.advance(by: .zero)  // it has launched, and is active
  /// try await host.leave(notes.id)
  /// try await host.advance(by: .seconds(5))  // didEnterBackground has returned, notes is suspended
  /// ```
  ///
  /// Dates go with its time, from the beginning of 1970 until the test posts ``SystemEvent/wallClock(_:)``.
  /// By the machine's clock go still: frames of audio, `AppClock`, and all that is not of the lifecycle.
  ///
  /// - Parameters:
  ///   - scheduler: `nil` makes one with defaults.
  ///   - policy: validated first.
  /// - Throws: ``HostError``: `policy`, `scheduler`.
  public static func inVirtualTime(
    scheduler: Scheduler? = nil, policy: AppsPolicy = .standard
  ) throws(HostError) -> AppHost {
    try AppHost(scheduler: scheduler, policy: policy, brokers: [], isVirtual: true)
  }

  /// Moves the time of a host that was made by ``inVirtualTime(scheduler:policy:)``: what is due until then
  /// happens at its moment, in order.
  ///
  /// Before the first moment and after each the host waits until its apps have done what was asked of them:
  /// callbacks and other calls of a delegate have returned, expired tasks of
  /// ``HostedApp/withBackgroundTask(_:_:)`` have ended, suspended apps are quiet, and terminated apps are
  /// gone. So a delegate takes as long as it likes, and no time passes for it. Tasks and closures of an app
  /// are not waited for: they may go on for as long as the app.
  ///
  /// Let the apps catch up by `advance(by: .zero)` between two things that a test does: an app that leaves
  /// before it has launched does not become active in between, and without that call it is chance whether it
  /// has launched.
  ///
  /// Call it from one task at a time, and from no delegate, which would wait for itself. It returns early
  /// where the calling task is cancelled.
  ///
  /// - Parameters:
  ///   - span: how far, 0 or more. With 0 it only waits, and does what is due now.
  ///   - waitsForApps: `false` does not wait. So a call that has not returned, because the test holds it up,
  ///     becomes late; once the host has reported that, it is no longer waited for.
  /// - Throws: ``HostError``: `time` where the host goes by the machine's clock, or `apps` where the span is
  ///   negative; nothing was changed.
  public func advance(by span: Duration, waitingForApps waitsForApps: Bool = true) async throws(HostError) {
    guard virtual != nil else { throw HostError(.time) }
    let end = system.now + span
    guard span >= .zero else { throw HostError(.apps(AppsError(.clockWentBack(from: system.now, to: end)))) }
    if waitsForApps { await settle() }
    while let next = [system.nextDeadline, virtual?.agenda.next].compactMap(\.self).min(), next <= end,
      !Task.isCancelled
    {
      try pass(to: next)
      if waitsForApps { await settle() }
    }
    guard !Task.isCancelled else { return }
    try pass(to: end)
    if waitsForApps { await settle() }
  }

  private func pass(to moment: Moment) throws(HostError) {
    do {
      carryOut(try system.advance(to: max(moment, system.now)))
    } catch {
      throw HostError(.apps(error))
    }
    while let next = virtual?.agenda.next, next <= system.now {
      guard let (_, body) = virtual?.agenda.popFirst() else { return }
      body(self)
    }
  }

  /// Waits until nothing is on its way, or the calling task is cancelled.
  private func settle() async {
    repeat {
      while !isSettled, !Task.isCancelled { await untilWoken() }
      // What the apps have computed counts before time goes on.
      guard policy.tasks.cpuTime != nil || policy.tasks.idleLimit != nil else { return }
      for id in residents.keys.sorted() where system.state(of: id) == .background {
        if let app = residents[id]?.app { await look(at: app) }
      }
    } while !isSettled && !Task.isCancelled
  }

  private func untilWoken() async {
    guard let number = virtual?.waitersMade else { return }
    virtual?.waitersMade += 1
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        guard !Task.isCancelled else { return continuation.resume() }
        virtual?.waiters[number] = continuation
      }
    } onCancel: {
      Task { await self.wake(number) }
    }
  }

  private func wake(_ number: UInt64) { virtual?.waiters.removeValue(forKey: number)?.resume() }

  /// Called after whatever may be the last thing that was on its way.
  func wakeIfSettled() {
    guard let virtual, !virtual.waiters.isEmpty, isSettled else { return }
    for number in virtual.waiters.keys { wake(number) }
  }

  private var isSettled: Bool {
    guard let virtual, virtual.followUps == 0 else { return false }
    return residents.values.allSatisfy { $0.isSettled(as: system.state(of: $0.app.id)) }
      && ending.values.joined().allSatisfy { virtual.unending.contains($0.life) }
  }
}

extension AppHost.Resident {
  fileprivate func isSettled(as state: LifecycleState?) -> Bool {
    guard !isLate else { return true }
    guard state != .stopping, restorations == 0 else { return false }
    // What a suspended app has not done it does when it is resumed.
    guard !places.allSatisfy({ $0.activity == .suspended }) else { return true }
    return delegate != nil && !isCalling && calls == 0 && expiring.isEmpty
  }
}
