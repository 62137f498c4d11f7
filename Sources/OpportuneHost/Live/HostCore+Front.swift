internal import Glibc
internal import OpportuneApps

extension HostCore {
  /// The app in front.
  var frontApp: HostedProcess? {
    system.frontmost.flatMap { id in apps.values.first { $0.id == id } }
  }

  /// A display or terminal tells of its focus, or that it is there or gone.
  func heard(_ event: FrontEvent) {
    switch event {
    case .followed(let name):
      followed = name
      configuration.log("who is in front is told by \(name)")
    case .lost(let why):
      followed = nil
      configuration.log("\(why); until it comes, commands tell who is in front")
      carryOut(front.focus(nil, owner: nil, front: frontApp?.name, now: now))
    case .focus(let target):
      let owner = target.flatMap(app(of:))
      carryOut(front.focus(target, owner: owner?.name, front: frontApp?.name, now: now))
    case .shown(let pids): goOnAsShown(pids)
    }
  }

  /// A suspended app goes on when a window of it is shown, also beside the one that has the focus: who looks
  /// at it would see it hang, and it would be sent events until it ends of them.
  private func goOnAsShown(_ pids: Set<pid_t>) {
    func isSuspended(_ app: HostedProcess) -> Bool {
      let state = system.state(of: app.id)
      return state == .suspended || state == .hibernated
    }
    guard apps.values.contains(where: isSuspended) else { return }
    let look = ProcessLook()
    for app in pids.sorted().compactMap({ app(of: $0, by: look) }) where isSuspended(app) {
      do throws(ProcessHostError) {
        try resume(app.name)
        configuration.log("'\(app.name)' goes on, as a window of it is shown")
      } catch {
        configuration.log("'\(app.name)' does not go on, and a window of it is shown: \(error)")
      }
    }
  }

  func carryOut(_ decision: FrontPolicy.Decision) {
    do throws(ProcessHostError) {
      switch decision {
      case .stay: break
      case .bringForward(let name): try moveForward(try app(name))
      case .leave(let name): try post(.leave, to: try app(name))
      }
    } catch {
      // As of one that is being ended.
      configuration.log("the focus has moved, and not the foreground: \(error)")
    }
  }

  /// A new app may be the one whose window has the focus.
  func lookWhetherFocused(_ app: HostedProcess) {
    jobsOfNone = []
    guard let target = front.focused, front.owner == nil, self.app(of: target) === app else { return }
    carryOut(front.began(app.name, hasFocused: true, front: frontApp?.name, now: now))
  }

  private func app(of target: FrontTarget) -> HostedProcess? {
    switch target {
    case .window(let pid): return app(of: pid)
    case .job(let job):
      guard let group = job.group, !jobsOfNone.contains(group) else { return nil }
      // Its first process may have ended, or be what feeds an app.
      if let found = appAtSight(of: group) { return found }
      let look = ProcessLook()
      for process in look.all where process.group == group && !process.hasEnded {
        if let found = app(of: process.pid, by: look) { return found }
      }
      // Those that have ended by now are forgotten.
      jobsOfNone.formIntersection(look.all.map(\.group))
      jobsOfNone.insert(group)
      return nil
    }
  }

  /// The app that a process belongs to.
  ///
  /// - Parameter look: `nil`: one is made where it is needed.
  func app(of pid: pid_t, by look: ProcessLook? = nil) -> HostedProcess? {
    if let found = appAtSight(of: pid) { return found }
    let look = look ?? ProcessLook()
    return apps.values.first { $0.group.members(by: look).contains(pid) }
  }

  /// By its control group, or where it has left that by its mark: without a look at all processes.
  private func appAtSight(of pid: pid_t) -> HostedProcess? {
    if maker.tree != nil, let group = ControlGroupTree.group(of: pid),
      let found = apps.values.first(where: {
        guard let own = $0.group.cgroup else { return false }
        return group == own || group.hasPrefix(own + "/")
      })
    {
      return found
    }
    return SignalledGroup.mark(of: pid).flatMap { mark in apps.values.first { $0.mark == mark } }
  }
}
