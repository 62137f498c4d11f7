import Foundation
internal import Glibc
internal import OpportuneApps
internal import OpportuneBase

/// Programs that cooperate: they are asked before the host acts, and have a grace for each answer.
///
/// The system waits for the return of their callbacks as for those of apps inside a program. Who does not
/// answer in time is left, and is from then on a program that knows nothing of the host; all that it was
/// asked counts as done.
extension HostCore {
  /// A process of an app joins.
  ///
  /// - Parameters:
  ///   - descriptor: its connection; it is the host's, unless this throws.
  ///   - restarts: whether it saves its state when asked, and takes it when it is started anew.
  func join(_ descriptor: Int32, pid: pid_t, restarts: Bool) throws(ProcessHostError) {
    guard pid > 0, let app = app(of: pid) else {
      throw ProcessHostError(
        .process(pid, "it belongs to no app of this host; opportune run makes one of it"))
    }
    guard let state = system.state(of: app.id), state != .terminated else {
      throw ProcessHostError(.lifecycle(app.name, "it is being ended"))
    }
    if let other = app.client {
      throw ProcessHostError(.lifecycle(app.name, "process \(other.pid) of it has joined"))
    }
    let client = ProgramClient(
      descriptor, pid: pid, restarts: restarts, grace: configuration.answerGrace)
    app.client = client
    var answer = HostAnswer()
    answer.name = app.name
    client.tell(Array(answer.line.utf8))
    if !restarts { states?.startNoMore(app.name) }
    if restarts, let file = states?.due(app.name) { client.ask(.restoreState(file), now: now) }
    // What it would have been told if it had been there.
    client.ask(.didFinishLaunching(app.launched), now: now)
    switch state {
    case .active: client.ask(.past(.didBecomeActive), now: now)
    case .background, .stopping, .suspended, .hibernated: client.ask(.past(.didEnterBackground), now: now)
    case .inactive, .notRunning, .terminated: break
    }
    tellMessages(to: app)
  }

  /// Something has come from it, or it has room.
  func heard(from app: HostedProcess) {
    guard let client = app.client else { return }
    client.send()
    for said in client.read(now: now) where app.client === client && client.failure == nil {
      if let answer = said.answer {
        guard let question = client.take(answer, now: now) else {
          client.fail("it has answered \(answer), which it was not asked")
          break
        }
        finish(question, of: app, client, reply: said.reply)
        goOnWithSuspension(app)
        suspendReanimated(app)
      } else if let task = said.begin {
        begin(task, said.name ?? "", client)
      } else if let task = said.end {
        client.tasks[task] = nil
        goOnWithSuspension(app)
      } else if let number = said.keepAlive {
        keepAlive(number, of: app, client)
      } else if let number = said.letGo {
        client.letGo(number)
      } else if let number = said.heartbeat {
        setHeartbeat(number, every: said.after, of: app, client)
      } else if let number = said.app {
        tellInner(number, said.name, said.state, of: app, client)
      } else if let number = said.schedule {
        schedule(number, said, of: app, client)
      } else if let number = said.pending {
        tellPending(number, of: app, client)
      } else if said.cancel != nil || said.cancelAll == true {
        notifications.cancel(said.cancel, of: app.name)
      }
    }
    look(at: app)
  }

  /// Leaves a client that has failed, or whose grace is over.
  func look(at app: HostedProcess) {
    defer { lowerOnceAnswered(app) }
    guard let client = app.client else { return }
    if let deadline = client.deadline, deadline <= now, let first = client.questions.first {
      client.fail("it did not answer \(first.question.name) within \(configuration.answerGrace)")
      app.note(["process \(client.pid) cooperates no more: \(client.failure ?? "")"])
    }
    if let failure = client.failure { leave(app, client, failure) }
  }

  /// What it is asked is answered at the speed that it had: its grace is no time of background. So
  /// is what it may use.
  func lowerOnceAnswered(_ app: HostedProcess) {
    guard app.lowersLater, app.client?.questions.isEmpty != false else { return }
    app.lowersLater = false
    app.note(app.classes.set(isBackground: true, of: app.group.members))
    app.limits.set(app.restrictions, members: app.group.members)
  }

  private func leave(_ app: HostedProcess, _ client: ProgramClient, _ reason: String) {
    // The system hears of all in order; what it asks meanwhile comes behind.
    while let question = client.takeWithoutAnswer() { finish(question, of: app, client, isAnswered: false) }
    guard app.client === client else { return }
    endHeartbeat(of: app, client)
    (app.client, app.leftBecause) = (nil, reason)
    client.close(reason)
    goOnWithSuspension(app)
    suspendReanimated(app)
  }

  private func finish(
    _ question: ClientQuestion, of app: HostedProcess, _ client: ProgramClient, isAnswered: Bool = true,
    reply: String? = nil
  ) {
    switch question {
    case .callback(.willTerminate): askToEnd(app)
    case .callback(let callback):
      if let effects = try? system.handle(.app(app.id, .returned(callback)), at: now) { carryOut(effects) }
      askForwardLater(app, client)
    case .taskExpires(let task): client.tasks[task] = nil
    case .saveState:
      // Where it was to go on meanwhile, its state is of no use.
      let isWanted = client.farewell.map { $0.saves && $0.isTold } == true
      if !isAnswered || !isWanted { states?.discard(app.name) }
    case .inner: if let reply { hasRefused(question, of: app, reply) }
    case .restoreState: if isAnswered { hasTaken(app) }
    case .didReceiveMessage(_, let number):
      messages.settle(number, isAnswered ? .answered(reply) : .lost(client.failure ?? "its program has left"))
    case .didFinishLaunching, .past, .willSuspend, .didResume, .memoryWarning, .didReceiveData,
      .heartbeat:
      break
    }
  }

  private func begin(_ task: Int64, _ name: String, _ client: ProgramClient) {
    var told = ClientTold("taskBegan")
    told.task = task
    let reason: String? =
      if client.tasks[task] != nil {
        "a task of this number has begun"
      } else if client.tasks.count >= ProgramClient.mostTasks {
        "it has \(ProgramClient.mostTasks) tasks, the most there may be"
      } else if name.count > ProgramClient.longestTaskName {
        "its name is longer than \(ProgramClient.longestTaskName) characters"
      } else if let farewell = client.farewell, farewell.isTold || farewell.tasksEnd <= now {
        "it is being suspended"
      } else {
        nil
      }
    if let reason {
      told.event = "taskRefused"
      told.reason = reason
    } else {
      client.tasks[task] = name
    }
    client.tell(told)
  }

  // MARK: Suspension

  /// What is to be waited for before an app may be stopped: its answers, then its tasks, then its answer to
  /// the word that it stops, or its state.
  ///
  /// - Parameter saves: whether it is to save its state, and is not stopped but ended.
  /// - Returns: until when, and why; `nil`: it may be stopped, or has saved its state.
  func farewell(_ app: HostedProcess, saves: Bool) throws(ProcessHostError) -> (
    until: Moment, reason: String
  )? {
    guard let client = app.client else { return nil }
    try leaveForeground(app)
    if client.farewell?.saves != saves { endFarewell(app) }
    var farewell =
      client.farewell ?? ProgramClient.Farewell(tasksEnd: now + configuration.taskLimit, saves: saves)
    defer { client.farewell = farewell }
    if client.questions.isEmpty, !client.tasks.isEmpty {
      let names = client.tasks.sorted { $0.key < $1.key }.map { "'\($0.value.printable)'" }
      guard farewell.tasksEnd <= now else {
        return (farewell.tasksEnd, "it has the background task \(names.joined(separator: ", "))")
      }
      for task in client.tasks.keys.sorted() where farewell.expired.insert(task).inserted {
        client.ask(.taskExpires(task), now: now)
      }
    }
    if client.questions.isEmpty, !farewell.isTold {
      let question: ClientQuestion = saves ? .saveState(try prepareState(of: app)) : .willSuspend
      farewell.isTold = true
      client.ask(question, now: now)
    }
    guard let (_, question) = client.questions.first, let deadline = client.deadline else { return nil }
    return (deadline, "it has not answered \(question.name) yet")
  }

  /// It is not to be suspended any more, or goes on.
  func endFarewell(_ app: HostedProcess) {
    stopStopping(app)
    app.client?.farewell = nil
  }

  /// Something has come for it meanwhile, so it is told anew that it stops.
  func stopStopping(_ app: HostedProcess) {
    guard let client = app.client, var farewell = client.farewell, farewell.isTold, !farewell.saves else {
      return
    }
    farewell.isTold = false
    client.farewell = farewell
    client.ask(.didResume, now: now)
  }

  private func goOnWithSuspension(_ app: HostedProcess) {
    guard apps[app.name] === app, let pending = app.pending, pending.isForAnswer else { return }
    lookAgain(at: app, pending)
  }

  // MARK: The end

  /// SIGTERM, and after the grace the kill.
  func askToEnd(_ app: HostedProcess) {
    app.killAt = now + (app.declared?.grace ?? configuration.grace)
    app.group.signal(SIGTERM)
    // Stopped from a terminal, it would not hear of it.
    app.group.signal(SIGCONT)
  }

  /// Memory is short, somebody says.
  func warn(_ name: String) throws(ProcessHostError) {
    let app = try app(name)
    guard app.client != nil else {
      throw ProcessHostError(.lifecycle(name, "it cannot be warned: no process of it has joined"))
    }
    guard system.state(of: app.id)?.mayExecute == true else {
      throw ProcessHostError(.lifecycle(name, "it cannot be warned: it is \(stateName(app))"))
    }
    try post(.memoryWarning, to: app)
  }
}

extension HostSocket {
  /// The process at the other end, as the kernel knows it since the connection; 0: one that cannot be seen.
  static func process(of client: Int32) -> pid_t {
    var credentials: (pid: Int32, user: UInt32, group: UInt32) = (0, 0, 0)
    var size = socklen_t(MemoryLayout.size(ofValue: credentials))
    guard getsockopt(client, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 else { return 0 }
    return credentials.pid
  }
}
