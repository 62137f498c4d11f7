/// Delivery of notices to delegates, beside the callbacks of the lifecycle.
extension AppHost {
  /// Delivers a notice that the app must handle. The app is kept in the background until it has.
  func notify(_ id: AppID, _ notice: AppNotice) {
    guard let resident = residents[id], !resident.isEnding else { return }
    resident.notices += 1
    enqueue(id) { delegate, app, host in
      await delegate.didReceive(notice)
      await host.value?.handled(app)
    }
  }

  private func handled(_ app: HostedApp) {
    guard let resident = residents[app.id], resident.app === app else { return }
    resident.notices -= 1
    // Only after concurrent notices were handled too.
    if resident.notices == 0 { try? post(.app(app.id, .does(.handled))) }
  }

  /// Delivers a notice that needs no handling.
  func tell(_ id: AppID, _ notice: AppNotice) {
    enqueue(id) { delegate, _, _ in await delegate.didReceive(notice) }
  }

  /// Runs a call of the delegate on its app's executor, after the callbacks that were requested before it.
  /// Later callbacks do not wait for it.
  func enqueue(
    _ id: AppID, _ body: @escaping @Sendable (any AppDelegate, HostedApp, WeakHost) async -> Void
  ) {
    guard let resident = residents[id], !resident.isEnding else { return }
    func start(_ delegate: any AppDelegate) {
      call(resident) { app, host in
        // An app that has ended meanwhile receives no more notices.
        if !app.isOver { await body(delegate, app, host) }
      }
    }
    resident.waiting.append((resident.callbacks.count, start))
    resident.startWaiting()
  }

  /// Runs code of an app on its executor; in virtual time the host knows when it has returned.
  func call(_ resident: Resident, _ body: @escaping @Sendable (HostedApp, WeakHost) async -> Void) {
    let (app, host) = (resident.app, WeakHost(self))
    guard virtual != nil else {
      _ = try? app.task(priority: .high) { await body(app, host) }
      return
    }
    resident.calls += 1
    do {
      try app.task(priority: .high) {
        await body(app, host)
        await host.value?.callReturned(app)
      }
    } catch {
      resident.calls -= 1
    }
  }

  private func callReturned(_ app: HostedApp) {
    guard let resident = residents[app.id], resident.app === app else { return }
    resident.calls -= 1
    resident.isLate = false
    wakeIfSettled()
  }
}

extension AppHost.Resident {
  /// Starts the calls for which all earlier callbacks have returned.
  func startWaiting() {
    guard let delegate else { return }
    while let first = waiting.first, first.after == 0 { waiting.removeFirst().start(delegate) }
  }
}
