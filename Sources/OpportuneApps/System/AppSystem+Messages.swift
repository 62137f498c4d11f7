internal import OpportuneBase

/// Messages, coalesced changes, prompts. (R-MSG, R-COAL)
extension AppSystem {
  mutating func receive(_ message: Message, _ id: AppID) {
    guard policy.messages.isOn else { return }
    let app = apps[id.number]
    if app.state.isForeground { return emit(.deliver(message), id) }
    switch policy.messages.delivery {
    case .reanimate: deliver([message], id)
    case .ask:
      apps[id.number].queued.append(message)
      ask(.message(message), id)
    case .batch(let span):
      apps[id.number].queued.append(message)
      let period = max(1, span.clampedNanoseconds)
      let next = now + .nanoseconds(period - now.nanoseconds % period)
      if deadline(.batch, of: app.id) == nil { arm(.batch, of: id, at: next) }
    }
  }

  mutating func deliverBatch(_ id: AppID) {
    let messages = apps[id.number].queued
    apps[id.number].queued = []
    if !messages.isEmpty { deliver(messages, id) }
  }

  private mutating func deliver(_ messages: [Message], _ id: AppID) {
    guard reanimate(id, by: .message, reason: .message) else {
      apps[id.number].queued += messages  // until it comes to the foreground
      return
    }
    for message in messages { emit(.deliver(message), id) }
  }

  mutating func deliverQueued(_ id: AppID) {
    let messages = apps[id.number].queued
    apps[id.number].queued = []
    for message in messages { emit(.deliver(message), id) }
  }

  /// Reanimates an app into the background for an event that it wants, and gives it time to handle the event.
  /// Returns false where the app keeps its state. An app in the foreground or background is not reanimated.
  /// (R-MSG-03, R-LIFE-23)
  mutating func reanimate(_ id: AppID, by wake: Wake, reason: LaunchReason) -> Bool {
    let app = apps[id.number]
    if app.state.isForeground { return true }
    if app.state != .background {
      guard app.wakes.contains(wake) else { return false }
      moveEvent(id, reason == .location ? .locationEvent : .reanimate, reason)
      guard apps[id.number].state == .background else { return false }
    }
    arm(.event, of: id, at: now + policy.eventTime)
    return true
  }

  // The table refuses neither of these two events in any state. The time is granted before the move;
  // otherwise the end of the move would suspend the app again.
  private mutating func moveEvent(_ id: AppID, _ event: LifecycleEvent, _ reason: LaunchReason) {
    arm(.event, of: id, at: now + policy.eventTime)
    moveOn(id, event, reason: reason)
    if apps[id.number].state != .background { disarm(.event, of: id) }
  }

  mutating func wake(_ id: AppID, by wake: Wake, _ effect: AppEffect) {
    let reasons: [Wake: LaunchReason] = [
      .message: .message, .data: .data, .heartbeat: .heartbeat, .fetch: .fetch, .completion: .completion,
      .location: .location,
    ]
    if reanimate(id, by: wake, reason: reasons[wake] ?? .system) { emit(effect, id) }
  }

  /// The app has handled what it was reanimated for; from now on the applicable service decides. (R-MSG-07)
  mutating func handled(_ id: AppID) {
    disarm(.event, of: id)
    suspendUnlessHeld(id)
  }

  mutating func changed(_ kind: String, _ value: String, _ id: AppID) {
    if apps[id.number].state.isForeground { return emit(.coalesced([Change(kind: kind, value: value)]), id) }
    guard apps[id.number].state != .notRunning, apps[id.number].state != .terminated else { return }
    apps[id.number].changes[kind] = value
  }

  // MARK: Prompts

  mutating func ask(_ prompt: Prompt, _ id: AppID) {
    emit(.ask(prompts.add(prompt, of: id), prompt), id)
  }

  mutating func answer(_ number: PromptID, accepted: Bool) throws(AppsError) {
    guard let (id, prompt) = prompts[number] else { throw AppsError(.unknownPrompt(number)) }
    if accepted, !apps[id.number].state.isForeground { try move(id, .bringForward) }
    prompts.close(number)
    guard !accepted else { return }
    switch prompt {
    case .call: handled(id)  // ignored: back to suspended (R-VOIP-07)
    case .message, .text: break  // keeps its state
    }
  }

  // MARK: Local notifications

  mutating func schedule(_ notification: LocalNotification, _ id: AppID) throws(AppsError) {
    guard let fires = notification.nextFire(after: wallClock, isFirst: true) else {
      throw AppsError(.invalidFireDate(id, notification.fireDate))
    }
    apps[id.number].locals.append(ScheduledLocal(notification: notification, fires: fires))
    armLocals(id)
  }

  mutating func cancelLocals(_ id: AppID) {
    apps[id.number].locals = []
    disarm(.local, of: id)
  }

  func armedMoment(forWall seconds: Double) -> Moment { max(now, Moment.seconds(seconds - wallAtZero)) }

  private mutating func armLocals(_ id: AppID) {
    guard let next = apps[id.number].locals.map(\.fires).min() else { return disarm(.local, of: id) }
    arm(.local, of: id, at: armedMoment(forWall: next))
  }

  mutating func fireLocals(_ id: AppID) {
    let wall = wallClock
    var kept: [ScheduledLocal] = []
    var fired: [LocalNotification] = []
    for var local in apps[id.number].locals {
      // Compared by the moment for which the timer was set: a double of seconds since 1970 is less precise.
      guard armedMoment(forWall: local.fires) <= now else {
        kept.append(local)
        continue
      }
      emit(.notify(local.notification), id)
      fired.append(local.notification)
      guard let next = local.notification.nextFire(after: max(wall, local.fires), isFirst: false) else {
        continue
      }
      local.fires = next
      kept.append(local)
    }
    apps[id.number].locals = kept
    armLocals(id)
    // The user sees it, and its app receives it like any message. (R-MSG-02)
    for notification in fired { receive(Message(notification), id) }
  }

  mutating func setWallClock(_ seconds: Double) throws(AppsError) {
    guard abs(seconds) <= LocalNotification.latest else { throw AppsError(.invalidTime(seconds)) }
    wallAtZero = seconds - now.seconds
    for index in apps.indices where !apps[index].locals.isEmpty {
      disarm(.local, of: AppID(index))
      armLocals(AppID(index))
    }
  }
}
