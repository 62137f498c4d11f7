internal import OpportuneApps

/// Apps inside of programs that have joined: they are listed as PROGRAM/APP, and their programs are asked to
/// do what users want of them. What each may use, and when it is suspended, its program decides.
extension HostCore {
  /// A program tells of one of its apps: that it is there, or its state.
  ///
  /// - Parameters:
  ///   - number: the program's own.
  ///   - state: as of ``AppEntry``.
  func tellInner(
    _ number: Int64, _ name: String?, _ state: String?, of app: HostedProcess, _ client: ProgramClient
  ) {
    let known = client.inner[number]
    let state = state.flatMap(LifecycleState.Operational.init)
    if state == .terminated || state == .notRunning {
      client.inner[number] = nil
      return
    }
    let name = name ?? known?.name ?? ""
    let reason: String? =
      if (try? AppName.check(name)) == nil {
        "its name is '\(name.printable)': expected 1 to \(AppName.longest) letters, digits, '.', '_' and '-'"
      } else if client.inner.contains(where: { $0.key != number && $0.value.name == name }) {
        "another of its apps is named '\(name)'"
      } else if known == nil, client.inner.count >= InnerApp.most {
        "it has \(InnerApp.most) apps, the most there may be"
      } else if state == nil {
        "its state is none of foreground, background, suspended, hibernated and terminated"
      } else {
        nil
      }
    guard let state, reason == nil else {
      var told = ClientTold("appRefused")
      (told.number, told.reason) = (number, reason)
      return client.tell(told)
    }
    client.inner[number] = InnerApp(name: name, state: state)
  }

  /// The app inside of a program of this name, as `editor/mail`.
  func inner(_ name: String) -> (app: HostedProcess, number: Int64)? {
    let parts = name.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, let app = apps[String(parts[0])],
      let found = app.client?.inner.first(where: { $0.value.name == parts[1] })
    else { return nil }
    return (app, found.key)
  }

  /// Asks the program of an app for something, which goes on for that where it was suspended. Its answer is
  /// not waited for. What is so already is not asked for.
  func ask(_ request: InnerApp.Request, of number: Int64, in app: HostedProcess) throws(ProcessHostError) {
    guard let client = app.client, let inner = client.inner[number] else { return }
    try checkLives(app)
    let name = "\(app.name)/\(inner.name)"
    let question = ClientQuestion.inner(request, app: number, name: name)
    let waiting = (client.questions.map(\.question) + [client.forward].compactMap(\.self)).filter {
      $0.inner != nil
    }
    if request == .bringForward { try bringForward(app.name) }
    if waiting.last(where: { $0.inner == number }) == question { return }
    guard waiting.count < InnerApp.mostQuestions else {
      throw ProcessHostError(
        .lifecycle(
          name,
          "\(InnerApp.mostQuestions) questions about apps wait for its program's answer, the most there may be"
        ))
    }
    if request == .bringForward {
      client.forward = question
      return askForwardLater(app, client)
    }
    if app.pending?.saving != nil {
      throw ProcessHostError(.lifecycle(name, "its program is being ended with its state saved"))
    }
    let state = innerStates(of: app)[name]
    if request == .suspend, state == .suspended || state == .hibernated { return }
    guard system.state(of: app.id)?.mayExecute == false else {
      stopStopping(app)
      return client.ask(question, now: now)
    }
    try post(.completion, to: app)
    client.ask(question, now: now)
    goOnReanimated(app)
  }

  /// A program brings an app forward when it has itself heard that it is in front.
  func askForwardLater(_ app: HostedProcess, _ client: ProgramClient) {
    guard let question = client.forward, system.view(of: app.id)?.callbacks.isEmpty != false else { return }
    client.forward = nil
    // It may have left the front again.
    if system.state(of: app.id)?.isForeground == true { client.ask(question, now: now) }
  }

  /// The program has not done what was asked of one of its apps.
  func hasRefused(_ question: ClientQuestion, of app: HostedProcess, _ reason: String) {
    guard case .inner(let request, _, let name) = question else { return }
    app.note(["'\(name)' was not \(request.done): \(reason.printable)"])
  }

  func innerEntries(of app: HostedProcess) -> [AppEntry] {
    innerStates(of: app).map { .withoutProcess($0.key, $0.value) }
  }

  /// Those of one program: nothing of them executes while it does not, and none is in front of what is not.
  func innerStates(of app: HostedProcess) -> [String: LifecycleState.Operational] {
    let outer = (system.state(of: app.id) ?? .terminated).operational
    var result: [String: LifecycleState.Operational] = [:]
    for inner in (app.client?.inner ?? [:]).values {
      let state: LifecycleState.Operational =
        switch outer {
        case .foreground: inner.state
        case .background: inner.state == .foreground ? .background : inner.state
        case .notRunning, .suspended, .hibernated, .terminated: outer
        }
      result["\(app.name)/\(inner.name)"] = state
    }
    return result
  }
}
