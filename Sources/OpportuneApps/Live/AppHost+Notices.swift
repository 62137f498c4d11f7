/// What delegates hear of beside the callbacks of the lifecycle.
extension AppHost {
  /// Something came for an app, which it is to handle: it is kept in background until it has.
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
    // Not while what came beside it is being handled.
    if resident.notices == 0 { try? post(.app(app.id, .handled)) }
  }

  /// Something that an app should know, and need not handle.
  func tell(_ id: AppID, _ notice: AppNotice) {
    enqueue(id) { delegate, _, _ in await delegate.didReceive(notice) }
  }

  /// Runs something of a delegate on its app's executor, once the callbacks before it have returned.
  /// Callbacks that come after it do not wait for it.
  func enqueue(
    _ id: AppID, _ body: @escaping @Sendable (any AppDelegate, HostedApp, WeakHost) async -> Void
  ) {
    guard let resident = residents[id], !resident.isEnding else { return }
    let (app, host) = (resident.app, WeakHost(self))
    func start(_ delegate: any AppDelegate) {
      _ = try? app.task(priority: .high) {
        // An app that ended meanwhile hears nothing more.
        if !app.isOver { await body(delegate, app, host) }
      }
    }
    resident.waiting.append((resident.callbacks.count, start))
    resident.startWaiting()
  }
}

extension AppHost.Resident {
  /// What no callback comes before any more.
  func startWaiting() {
    guard let delegate else { return }
    while let first = waiting.first, first.after == 0 { waiting.removeFirst().start(delegate) }
  }
}
