internal import OpportuneApps
internal import OpportuneBase

/// Local notifications of programs: told as messages at their time, in whatever state the app is. (R-MSG-02,
/// R-MSG-09, R-MSG-10)
extension HostCore {
  /// A program schedules one.
  func schedule(_ number: Int64, _ said: ClientSaid, of app: HostedProcess, _ client: ProgramClient) {
    var told = ClientTold("scheduled")
    told.number = number
    let wall = configuration.wallClock()
    do throws(ProcessHostError) {
      let fires = try notifications.schedule(
        try said.notification(wall: wall), as: said.name ?? "", of: app.name, wall: wall)
      told.at = Self.milliseconds(fires)
      // Starts with the first, as who has none pays for no watch.
      if standIn == nil { clockWatch = clockWatch ?? WallClockWatch(calling: wakeUp) }
    } catch {
      (told.event, told.reason) = ("scheduleRefused", error.message)
    }
    client.tell(told)
  }

  /// A program asks what is to fire.
  func tellPending(_ number: Int64, of app: HostedProcess, _ client: ProgramClient) {
    for one in notifications.pending(of: app.name) {
      var told = ClientTold("pending")
      (told.number, told.name, told.at) = (number, one.name, Self.milliseconds(one.fires))
      client.tell(told)
    }
    var told = ClientTold("pendingEnd")
    told.number = number
    client.tell(told)
  }

  private static func milliseconds(_ seconds: Double) -> Int64 {
    Int64(exactly: (seconds * 1000).rounded()) ?? .max
  }

  /// When the next fires, as far as the wall clock is not set meanwhile, which is told.
  var notificationFires: Moment? {
    guard let next = notifications.next else { return nil }
    // A wait of years is no wait that is exact.
    return now + .seconds(min(max(0, next - configuration.wallClock()), 1e8))
  }

  /// Those whose time has come are told.
  ///
  /// Who is being ended, saves its state, or has as many messages as there may be is told after that: nothing
  /// is polled, since each of these ends by an event.
  func fireNotifications() {
    guard notifications.next != nil || !notifications.due.isEmpty else { return }
    for fired in notifications.fire(wall: configuration.wallClock()) {
      configuration.notified?(FiredNotification(app: fired.app, notification: fired.notification))
    }
    for name in Set(notifications.due.map(\.app)).sorted() {
      while !isBusy(name), let fired = notifications.take(name) { tell(fired) }
    }
  }

  private func isBusy(_ name: String) -> Bool {
    guard let app = apps[name] else { return false }
    return system.state(of: app.id) == .terminated || app.pending?.saving != nil
      || messages.waiting(name).count >= MessageLedger.mostWaiting
  }

  private func tell(_ fired: NotificationLedger.Fired) {
    let message = Message.told(fired.notification, as: fired.name)
    do throws(ProcessHostError) {
      if try notify(fired.app, message) != nil { return }
      var manifest = declaration(of: fired.app)
      if manifest == nil { manifest = try configuration.catalog.find(fired.app) }
      guard let manifest else {
        throw ProcessHostError(.unknownApp(fired.app))
      }
      _ = try launch(manifest, for: message)
    } catch {
      let why = "its notification '\(fired.name.printable)' was not told: \(error.message)"
      apps[fired.app]?.note(["\(why)"])
      configuration.log("'\(fired.app)': \(why)")
    }
  }

  /// An app has ended. What nobody could start anew hears nothing more.
  func forgetNotifications(of app: HostedProcess) {
    let mayStart = app.declared?.isOfRun == true ? declaration(of: app.name) != nil : app.declared != nil
    if !mayStart { notifications.cancel(nil, of: app.name) }
  }
}
