internal import COpportuneClient
internal import Glibc
internal import OpportuneApps

/// The apps inside of a program, of which it tells the host of programs, and whose users ask for them there.
actor ListedApps {
  private let apps: AppHost
  private let refused: @Sendable (_ app: String, _ reason: String) -> Void
  private var told: [AppID: (name: String, state: LifecycleState)] = [:]
  /// Was in front when the program left the front.
  private var left: AppID?

  init(_ apps: AppHost, _ refused: @escaping @Sendable (_ app: String, _ reason: String) -> Void) {
    (self.apps, self.refused) = (apps, refused)
  }

  /// Tells of each app, and of each new state, until the connection or the in-process host ends.
  func follow(_ loop: ClientLoop) async {
    let events = await apps.observe()
    for view in await apps.switcher() { await tell(view, loop) }
    for await event in events {
      guard case .moved = event.action, let view = await apps.view(of: event.app) else { continue }
      await tell(view, loop)
    }
  }

  private func tell(_ view: AppView, _ loop: ClientLoop) async {
    let name = view.manifest.identifier
    guard told[view.id]?.state != view.state else { return }
    told[view.id] = (name, view.state)
    let state =
      switch view.state {
      case .active, .inactive: OPPCLIENT_FOREGROUND
      case .background, .stopping: OPPCLIENT_BACKGROUND
      case .suspended: OPPCLIENT_SUSPENDED
      case .hibernated: OPPCLIENT_HIBERNATED
      case .notRunning, .terminated: OPPCLIENT_TERMINATED
      }
    // A text of C ends with the first.
    guard !name.utf8.contains(0) else { return refused(name, "its identifier has a null character") }
    // Until the host has read what was told before.
    while loop.tellApp(Int64(view.id.number), name, state) == -ENOBUFS {
      do { try await Task.sleep(for: .milliseconds(10)) } catch { return }
    }
  }

  /// The host lists none of them any more.
  func forget(_ loop: ClientLoop) {
    for (id, app) in told { _ = loop.tellApp(Int64(id.number), app.name, OPPCLIENT_TERMINATED) }
  }

  /// The host does not list one.
  func isRefused(_ number: Int64, _ reason: String) {
    refused(told[AppID(Int(number))]?.name ?? "", reason)
  }

  /// Does what the host's user wants of an app.
  ///
  /// - Returns: why not; `nil`: it is done.
  func carryOut(_ event: oppclient_event, _ number: Int64) async -> String? {
    guard let number = Int(exactly: number), told[AppID(number)] != nil,
      let view = await apps.view(of: AppID(number))
    else { return "it is none of the program's apps" }
    do throws(HostError) {
      switch event {
      case OPPCLIENT_BRING_APP_FORWARD: try await apps.bringForward(view.id)
      case OPPCLIENT_TERMINATE_APP: try await apps.terminate(view.id)
      default: return try await suspend(view)
      }
    } catch {
      return error.message
    }
    return nil
  }

  /// It leaves the front, and is suspended by its policy: when it has no tasks any more.
  private func suspend(_ view: AppView) async throws(HostError) -> String? {
    if view.state.isForeground { try await apps.leave(view.id) }
    guard let holds = await apps.view(of: view.id)?.heldBy, !holds.isEmpty else { return nil }
    return "it stays in background for now: \(holds.map { "\($0)" }.joined(separator: ", "))"
  }

  /// The program is in front no more, so none of its apps is.
  func leaveFront() async {
    for view in await apps.switcher().reversed() where view.state.isForeground {
      left = view.id
      // Where another has moved it meanwhile, that counts.
      try? await apps.leave(view.id)
      // Its callbacks return before the program may be stopped; the policy of the apps limits how long they
      // take.
      while await apps.view(of: view.id)?.callbacks.isEmpty == false {
        guard (try? await Task.sleep(for: .milliseconds(5))) != nil else { return }
      }
    }
  }

  /// The program is in front again, with the app that was there.
  func comeToFront() async {
    defer { left = nil }
    guard let left, await apps.switcher().first?.state.isForeground != true else { return }
    try? await apps.bringForward(left)
  }
}
