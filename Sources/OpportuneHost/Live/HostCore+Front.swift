internal import Glibc
internal import OpportuneApps

extension HostCore {
  /// The app in front.
  var frontApp: HostedProcess? {
    system.frontmost.flatMap { id in apps.values.first { $0.id == id } }
  }

  /// A display tells of its focus, or that it is there or gone.
  func heard(_ event: FrontEvent) {
    switch event {
    case .followed(let name):
      followed = name
      configuration.log("who is in front is told by \(name)")
    case .lost(let why):
      followed = nil
      configuration.log("\(why); until it comes, commands tell who is in front")
      carryOut(front.focus(nil, owner: nil, front: frontApp?.name, now: now))
    case .focus(let pid):
      let owner = pid.flatMap(app(of:))
      carryOut(front.focus(pid, owner: owner?.name, front: frontApp?.name, now: now))
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
    guard let pid = front.focused, front.owner == nil, self.app(of: pid) === app else { return }
    carryOut(front.began(app.name, hasFocused: true, front: frontApp?.name, now: now))
  }

  /// The app that a process belongs to: by its control group, or where it has left that by its mark, else by
  /// a look at all.
  func app(of pid: pid_t) -> HostedProcess? {
    if maker.tree != nil, let group = ControlGroupTree.group(of: pid),
      let found = apps.values.first(where: {
        guard let own = $0.group.cgroup else { return false }
        return group == own || group.hasPrefix(own + "/")
      })
    {
      return found
    }
    if let mark = SignalledGroup.mark(of: pid), let found = apps.values.first(where: { $0.mark == mark }) {
      return found
    }
    let look = ProcessLook()
    return apps.values.first { $0.group.members(by: look).contains(pid) }
  }
}
