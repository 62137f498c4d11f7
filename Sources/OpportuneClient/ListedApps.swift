internal import COpportuneClient
internal import Glibc
internal import OpportuneApps

/// The apps inside of a program, of which it tells the host of programs, and whose users ask for them there.
actor ListedApps {
  private let apps: AppHost
  /// The number of its first for the host: those of two hosts in a program have no number in common.
  private let base: Int64
  private let refused: @Sendable (_ app: String, _ reason: String) -> Void
  private var told: [AppID: (name: String, state: LifecycleState)] = [:]
  /// Those that the host does not list, until another has ended.
  private var unlisted: Set<AppID> = []
  /// Was in front when the program left the front.
  private var left: AppID?
  /// A host takes 256 lines of a program in a second.
  private var lines = (since: ContinuousClock.now, count: 0)
  private static let mostLines = 100

  init(
    _ apps: AppHost, base: Int64, _ refused: @escaping @Sendable (_ app: String, _ reason: String) -> Void
  ) {
    (self.apps, self.base, self.refused) = (apps, base, refused)
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
    if view.state == .terminated { unlisted = [] }
    guard told[view.id]?.state != view.state, !unlisted.contains(view.id) else { return }
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
    guard !name.utf8.contains(0) else { return isRefused(view.id, "its identifier has a null character") }
    await tell(view.id, name, state, loop)
  }

  /// Waits while the host has much to read.
  private func tell(_ id: AppID, _ name: String, _ state: oppclient_state, _ loop: ClientLoop) async {
    if lines.count >= Self.mostLines {
      do { try await Task.sleep(until: lines.since + .seconds(1), clock: .continuous) } catch { return }
    }
    if lines.since.duration(to: .now) >= .seconds(1) { lines = (.now, 0) }
    lines.count += 1
    while loop.tellApp(base + Int64(id.number), name, state) == -ENOBUFS {
      do { try await Task.sleep(for: .milliseconds(10)) } catch { return }
    }
  }

  /// The host lists none of them any more.
  func forget(_ loop: ClientLoop) async {
    for (id, app) in told where app.state != .terminated && !unlisted.contains(id) {
      await tell(id, app.name, OPPCLIENT_TERMINATED, loop)
    }
  }

  /// The one of this number for the host; `nil`: it is none of these.
  private func app(_ number: Int64) -> AppID? {
    guard number >= base, let number = Int(exactly: number - base), told[AppID(number)] != nil else {
      return nil
    }
    return AppID(number)
  }

  /// The host does not list one.
  func isRefused(_ number: Int64, _ reason: String) {
    if let id = app(number) { isRefused(id, reason) }
  }

  private func isRefused(_ id: AppID, _ reason: String) {
    guard unlisted.insert(id).inserted else { return }
    refused(told[id]?.name ?? "", reason)
  }

  /// Does what the host's user wants of an app.
  ///
  /// - Returns: why not; `nil`: it is done.
  func carryOut(_ event: oppclient_event, _ number: Int64) async -> String? {
    guard let id = app(number), let view = await apps.view(of: id) else {
      return "it is none of the program's apps"
    }
    do throws(HostError) {
      switch event {
      case OPPCLIENT_BRING_APP_FORWARD: try await apps.bringForward(id)
      case OPPCLIENT_TERMINATE_APP: try await apps.terminate(id)
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

  /// The program is in front no more, so none of its apps is. Their callbacks return before the program is
  /// stopped, unless they take longer than `limit`.
  func leaveFront(within limit: Duration) async {
    let end = ContinuousClock.now + limit
    for view in await apps.switcher().reversed() where view.state.isForeground {
      left = view.id
      // Where another has moved it meanwhile, that counts.
      try? await apps.leave(view.id)
    }
    while ContinuousClock.now < end, await apps.switcher().contains(where: { !$0.callbacks.isEmpty }) {
      guard (try? await Task.sleep(for: .milliseconds(5))) != nil else { return }
    }
  }

  /// The program is in front again, or no host decides where it is, with the app that was there.
  func comeToFront() async {
    defer { left = nil }
    guard let left, await apps.switcher().first?.state.isForeground != true else { return }
    try? await apps.bringForward(left)
  }
}
