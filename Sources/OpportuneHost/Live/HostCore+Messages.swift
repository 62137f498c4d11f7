internal import OpportuneApps
internal import OpportuneBase

/// Messages to programs, in whatever state they are. (R-MSG-01, R-MSG-03, R-MSG-04, R-MSG-07)
extension HostCore {
  /// A message for an app. One that waits for its program to join is told of it then.
  ///
  /// - Returns: its number; `nil`: nothing of the app is here.
  func notify(_ name: String, _ message: Message) throws(ProcessHostError) -> UInt64? {
    try message.checkFits()
    if inner(name) != nil { _ = try app(name) }
    guard let app = apps[name] else {
      guard checkpoints?.all[name] != nil else { return nil }
      throw ProcessHostError(
        .lifecycle(
          name,
          "it is hibernated by a checkpoint, and no process of it had joined: nobody would hear a message"
        ))
    }
    try checkLives(app)
    if app.pending?.saving != nil {
      throw ProcessHostError(
        .lifecycle(
          name, "it is being ended with its state saved, and is started anew for a message after that"))
    }
    guard app.client != nil || app.joinsUntil != nil else {
      throw ProcessHostError(
        .lifecycle(name, "no process of it has joined, so nobody would hear a message"))
    }
    guard messages.waiting(name).count < MessageLedger.mostWaiting else {
      throw ProcessHostError(
        .lifecycle(name, "\(MessageLedger.mostWaiting) messages wait for its answer, the most there may be"))
    }
    let number = messages.begin(name)
    app.messages.append((number, message))
    if app.client != nil { try tellNext(app) }
    return number
  }

  /// Starts an app for a message, which it is told of when it has joined. (R-MSG-04)
  func launch(_ manifest: HostManifest, for message: Message) throws(ProcessHostError) -> UInt64 {
    try message.checkFits()
    if manifest.exitsOnSuspend {
      throw ProcessHostError(
        .lifecycle(manifest.name, "it does not run, and its manifest has no place in background for it"))
    }
    _ = try launch(manifest, foreground: false, reason: .message)
    let app = try app(manifest.name)
    let number = messages.begin(app.name)
    app.messages = [(number, message)]
    app.joinsUntil = now + configuration.joinLimit
    app.isReanimated = true
    return number
  }

  /// Has the system tell an app of its next message.
  private func tellNext(_ app: HostedProcess) throws(ProcessHostError) {
    guard let (number, message) = app.messages.first else { return }
    let wasStopped = system.state(of: app.id)?.mayExecute == false
    if !wasStopped { stopStopping(app) }
    do throws(ProcessHostError) { try post(.message(message), to: app) } catch {
      app.messages.removeAll { $0.number == number }
      messages.settle(number, .lost(error.message))
      throw error
    }
    guard app.messages.first?.number != number else {
      app.messages.removeFirst()
      messages.settle(number, .lost("it takes none where it is"))
      throw ProcessHostError(.lifecycle(app.name, "it takes no messages where it is: \(stateName(app))"))
    }
    if wasStopped { return goOnReanimated(app) }
    guard system.state(of: app.id) == .background else { return }
    do throws(ProcessHostError) { try post(.does(.handled), to: app) } catch { app.note([error.message]) }
  }

  /// The system delivers the next message.
  func deliver(_ message: Message, to app: HostedProcess) {
    guard !app.messages.isEmpty else { return }
    let (number, _) = app.messages.removeFirst()
    app.client?.ask(.didReceiveMessage(message, number: number), now: now)
  }

  /// A process of an app has joined, whose messages wait.
  func tellMessages(to app: HostedProcess) {
    app.joinsUntil = nil
    while !app.messages.isEmpty, app.client != nil {
      do throws(ProcessHostError) { try tellNext(app) } catch { app.note([error.message]) }
    }
  }

  /// Nobody of an app that was started for messages has joined in time: it goes on as it is.
  func lookAtJoin(of app: HostedProcess) {
    guard let end = app.joinsUntil, end <= now else { return }
    (app.joinsUntil, app.isReanimated, app.messages) = (nil, false, [])
    let why = "no process of it has joined within \(configuration.joinLimit)"
    messages.lose(app.name, why)
    app.note(["it was started for a message, which nobody heard: \(why)"])
  }

  /// - Returns: what has become of a message.
  func outcome(of number: UInt64, _ name: String) throws(ProcessHostError) -> MessageLedger.Outcome {
    guard let outcome = messages.outcome(number, of: name) else {
      throw ProcessHostError(
        .value(
          "the message", "\(number)",
          "expected one to '\(name)' that waits, or is among the last \(MessageLedger.mostOver) that do not"))
    }
    if case .lost(let why) = outcome {
      throw ProcessHostError(.lifecycle(name, "message \(number) was not answered: \(why)"))
    }
    return outcome
  }
}
