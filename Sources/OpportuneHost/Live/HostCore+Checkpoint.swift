internal import COpportuneHost
import Foundation
internal import Glibc
internal import OpportuneApps
internal import OpportuneBase

/// An app of which CRIU writes all to files.
struct PendingCheckpoint {
  let run: CheckpointRun
  let kept: Checkpoints.Kept
  /// For people.
  let notPagedOut: String
  /// Somebody wants it to go on after that, in front or not; `nil`: nobody does.
  var goesOn: Bool?
}

/// An app that CRIU makes again.
struct PendingRestore {
  let run: CheckpointRun
  let kept: Checkpoints.Kept
  let group: ControlGroup
  let memory: MemoryGroup?
  var foreground: Bool
  /// It was terminated meanwhile.
  var isUnwanted = false
}

/// Checkpoints: hibernation where nothing can be paged out, for programs that know nothing of it. An app is
/// ended once it is in files, as one that has saved its state is. Its processes have the same numbers again,
/// and are this process's children. (R-LIFE-07)
extension HostCore {
  /// Whether CRIU may be asked for an app now.
  func checkpoint(of app: HostedProcess) -> HibernationWay.Checkpoint {
    guard let tool = configuration.checkpoints else { return .unused }
    if let lack = tool.lack { return .refused(lack) }
    if checkpoints == nil { return .refused("the host has no folder for states") }
    if app.group.cgroup == nil { return .refused("no control group holds it") }
    if app.client != nil { return .refused("its program has joined, and its connection would end") }
    if let why = app.notCheckpointed { return .refused(why) }
    switch CheckpointScope.look(at: app.group.members(), maker: tool.privileges) {
    case .possible: return .possible
    case .refused(let why): return .refused(why)
    }
  }

  /// Has a suspended app written to files, which nothing else waits for, and ended then. Where that cannot
  /// be, it is hibernated in the next way.
  ///
  /// - Returns: how long that takes until it is looked at again, and why.
  func makeCheckpoint(
    _ app: HostedProcess, notPagedOut: String, _ policy: LockPolicy
  ) throws(ProcessHostError) -> (wait: Duration, reason: String)? {
    guard let tool = configuration.checkpoints, let checkpoints, let states, let group = app.group.cgroup
    else { return nil }
    // Looked at once more: this is what is kept.
    guard case .possible(let kept) = CheckpointScope.look(at: app.group.members(), maker: tool.privileges)
    else {
      throw ProcessHostError(.notHibernated(app.name, "its processes have changed"))
    }
    let folder: String
    do throws(ProcessHostError) {
      try states.makeFolder(for: app.name)
      folder = try checkpoints.prepare(app.name, kept)
    } catch {
      app.notCheckpointed = error.message
      return try hibernateSuspended(app, policy)
    }
    app.pageOut?.cancel()
    app.pageIn?.cancel()
    let (run, wakeUp) = (CheckpointRun(isRestore: false), self.wakeUp)
    app.checkpoint = PendingCheckpoint(run: run, kept: kept, notPagedOut: notPagedOut)
    runAside {
      let failure = tool.dump(kept.root, inherited: kept.inherited, group: group, to: folder)
      run.end(failure.map { .failed($0) } ?? .done)
      wakeUp()
    }
    return waitForCheckpoint(app.name)
  }

  /// - Returns: `nil`: none is being made.
  func waitForCheckpoint(_ name: String) -> (wait: Duration, reason: String)? {
    guard apps[name]?.checkpoint != nil else { return nil }
    return (.milliseconds(50), "a checkpoint of it is being made")
  }

  /// CRIU has ended, or not.
  func lookAtCheckpoint(of app: HostedProcess) {
    guard let pending = app.checkpoint, let outcome = pending.run.outcome, let checkpoints else { return }
    app.checkpoint = nil
    if system.state(of: app.id) == .terminated {
      checkpoints.remove(app.name)
      return watch(app)
    }
    guard case .failed(let why) = outcome else {
      hasLeft(app, pending, checkpoints)
      guard let foreground = pending.goesOn else { return }
      do throws(ProcessHostError) { try restore(app.name, foreground: foreground) } catch {
        checkpoints.note(app.name, error.message)
      }
      return
    }
    checkpoints.remove(app.name)
    app.notCheckpointed = why
    app.note("no checkpoint of it was made: ", why)
    configuration.log("no checkpoint of '\(app.name)' was made: \(why)")
    watch(app)  // its end was not looked at meanwhile
    guard apps[app.name] === app else { return }
    // CRIU has frozen it again, unless somebody has killed that.
    let runs = system.state(of: app.id)?.mayExecute == true
    do throws(ProcessHostError) {
      if runs { try app.group.thaw() }  // a host before had begun it
      switch pending.goesOn {
      case true?: try bringForward(app.name)
      case false?: try resume(app.name)
      case nil where runs: break
      case nil:
        try app.group.freeze(within: configuration.freezeLimit)
        _ = try hibernateSuspended(app, lockPolicy(of: app))
      }
    } catch {
      app.used = now
      outcomes[app.name] = error
      app.note([error.message])
    }
  }

  /// Nothing of it is left but its files.
  private func hasLeft(_ app: HostedProcess, _ pending: PendingCheckpoint, _ checkpoints: Checkpoints) {
    let text =
      "a checkpoint of \(checkpoints.size(of: app.name).inMegabytes) was made of it in "
      + "\(pending.run.milliseconds) ms; it was not paged out: \(pending.notPagedOut)"
    checkpoints.keep(app.name, pending.kept, note: text)
    configuration.log("\(PageOut.Purpose.hibernation.rawValue)'\(app.name)': \(text)")
    ended(app)
  }

  // MARK: Back

  /// Whether an app is in files, or is being written there.
  func isCheckpoint(_ name: String) -> Bool {
    checkpoints?.all[name] != nil || apps[name]?.checkpoint != nil
  }

  /// Has an app go on that is in files, or is being written there: then when that is done.
  ///
  /// - Returns: what is to be waited for; `nil`: nothing.
  /// - Throws: as ``restore(_:foreground:)``.
  func goOn(_ name: String, foreground: Bool) throws(ProcessHostError) -> CheckpointRun? {
    guard let app = apps[name] else { return try restore(name, foreground: foreground) }
    return try goOnLater(app, foreground: foreground) ? app.checkpoint?.run : nil
  }

  /// - Returns: `false`: no checkpoint of it is being made.
  func goOnLater(_ app: HostedProcess, foreground: Bool) throws(ProcessHostError) -> Bool {
    guard let pending = app.checkpoint else { return false }
    try checkLives(app)
    app.checkpoint?.goesOn = foreground || pending.goesOn == true
    return true
  }

  /// Has CRIU make an app again; nothing waits for that.
  ///
  /// - Returns: the run; `nil`: there is no checkpoint of it.
  /// - Throws: ``ProcessHostError``: `lifecycle` where CRIU cannot be asked, `system`.
  @discardableResult func restore(
    _ name: String, foreground: Bool
  ) throws(ProcessHostError) -> CheckpointRun? {
    if let pending = restores[name] {
      restores[name]?.foreground = foreground || pending.foreground
      return pending.run
    }
    guard let checkpoints, let kept = checkpoints.all[name]?.kept else { return nil }
    let tool = configuration.checkpoints
    guard let tool, tool.lack == nil, let group = try maker.tree?.group(name) else {
      throw ProcessHostError(
        .lifecycle(
          name,
          "it is hibernated by a checkpoint, and the host cannot restore it: "
            + (tool.map { $0.lack ?? "it has no control groups" } ?? "it was started without --criu")))
    }
    let (run, wakeUp, folder) = (CheckpointRun(isRestore: true), self.wakeUp, checkpoints.path(name))
    let (memory, path) = (makeMemory(name, group), group.path)
    restores[name] = PendingRestore(
      run: run, kept: kept, group: group, memory: memory, foreground: foreground)
    runAside {
      run.end(Self.restore(kept, by: tool, from: folder, into: path, memory))
      wakeUp()
    }
    return run
  }

  /// Takes as long as that does; any thread.
  private static func restore(
    _ kept: Checkpoints.Kept, by tool: CheckpointTool, from folder: String, into group: String,
    _ memory: MemoryGroup?
  ) -> CheckpointRun.Outcome {
    if let pid = firstTaken(of: kept.ids) {
      return .failed("process \(pid) is there, whose number is that of one of its own")
    }
    // CRIU is in the app's groups for that, and so is what it makes: nothing runs that is to be moved.
    let group = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    let entrance = memory?.entrance.map { open($0, O_WRONLY | O_CLOEXEC) } ?? -1
    defer { for one in [group, entrance] where one >= 0 { close(one) } }
    return tool.restore(from: folder, inherited: kept.inherited, group: group, entrance: entrance)
  }

  /// A process has its number until its parent has seen its end, which may still come.
  private static func firstTaken(of ids: [pid_t]) -> pid_t? {
    for _ in 0..<2000 {
      LeftChildren.reap()
      guard let pid = ids.first(where: { SystemFile.exists("/proc/\($0)") }) else { return nil }
      if ProcessStat(of: pid)?.hasEnded == false { return pid }
      usleep(1000)
    }
    return ids.first { SystemFile.exists("/proc/\($0)") }
  }

  /// Those that CRIU has made again are apps as before.
  func lookAtRestores() {
    for (name, pending) in restores {
      guard let outcome = pending.run.outcome else { continue }
      restores[name] = nil
      switch outcome {
      case .done where !pending.isUnwanted: hasComeBack(name, pending)
      case .failed(let why) where !pending.isUnwanted && !hasRestored(name):
        // Nothing of it has executed, and what was in the way may go.
        clear(pending)
        if let path = checkpoints?.path(name) { CheckpointTool.forgetRestore(from: path) }
        checkpoints?.note(name, "it could not be restored: \(why)")
        configuration.log("'\(name)' could not be restored, and its checkpoint is kept: \(why)")
      case .done, .failed:
        clear(pending)
        checkpoints?.remove(name)
        forget(name)
        if !pending.isUnwanted, case .failed(let why) = outcome {
          configuration.log("'\(name)' has ended: it was restored, and then CRIU failed: \(why)")
        }
      }
    }
  }

  private func hasRestored(_ name: String) -> Bool {
    checkpoints.map { CheckpointTool.hasRestored(from: $0.path(name)) } ?? false
  }

  private func hasComeBack(_ name: String, _ pending: PendingRestore) {
    var declared = declaration(of: name)
    if declared == nil { declared = (try? configuration.catalog.find(name)) ?? nil }
    checkpoints?.remove(name)
    let text = "it was restored from a checkpoint in \(pending.run.milliseconds) ms"
    do throws(ProcessHostError) {
      try begin(
        name, group: pending.group, mark: maker.mark(of: name), first: pending.kept.root,
        memory: pending.memory, foreground: pending.foreground, child: child(pending.kept.root),
        declared: declared, isLeft: true, notes: [text])
    } catch {
      configuration.log("'\(name)' has come back, and is no app: \(error)")
    }
  }

  /// Nothing of it may be left.
  private func clear(_ pending: PendingRestore) {
    try? pending.group.kill()
    if let child = child(pending.kept.root) { LeftChildren.leave(child) }
    pending.group.remove()
    pending.memory?.remove()
  }

  /// A process that CRIU has made, which nobody else reaps; `nil` where it is another's.
  private func child(_ pid: pid_t) -> HostChild? {
    guard ProcessStat(of: pid)?.parent == getpid() else { return nil }
    let descriptor = opp_host_pidfd_open(pid)
    return descriptor < 0 ? nil : HostChild(pid: pid, descriptor: descriptor)
  }

  // MARK: What a host before has left

  /// CRIU was, or is, at work on an app when a host was killed, and ends it when it has all in files.
  func followCheckpoint(of app: HostedProcess) {
    guard let checkpoints, let kept = checkpoints.takeBegun(app.name) else { return }
    let (run, wakeUp, folder) = (CheckpointRun(isRestore: false), self.wakeUp, checkpoints.path(app.name))
    app.checkpoint = PendingCheckpoint(
      run: run, kept: kept, notPagedOut: "a host before has begun that",
      goesOn: system.state(of: app.id)?.isForeground == true ? true : nil)
    runAside {
      _ = CheckpointTool.waitForEnd(in: folder, until: nil)
      run.end(
        CheckpointTool.hasDumped(to: folder)
          ? .done : .failed(CheckpointTool.dumpFailure(in: folder) ?? "CRIU ended before it was done"))
      wakeUp()
    }
  }

  /// Before its apps are looked at.
  func settleCheckpoints() {
    checkpoints?.settle(limit: configuration.checkpointLimits.start, log: configuration.log) { name in
      guard let group = try? maker.tree?.group(name) else { return }
      try? group.kill()
      group.remove()
    }
  }

  // MARK: The end

  /// An app that is in files is terminated.
  func dropCheckpoint(_ name: String) {
    if let pending = restores[name] {
      restores[name]?.isUnwanted = true
      try? pending.group.kill()  // CRIU is in it
      return
    }
    checkpoints?.remove(name)
    forget(name)
  }

  /// The host ends: what CRIU is at is waited for, though not for long. The next host looks what became of a
  /// checkpoint; an app that was to come back stays in its files.
  func leaveCheckpoints() {
    guard let checkpoints else { return }
    let end = Date() + configuration.checkpointLimits.end / .seconds(1)
    for app in apps.values {
      guard let pending = app.checkpoint else { continue }
      app.checkpoint = nil
      guard pending.run.wait(until: end) else {
        configuration.log("a checkpoint of '\(app.name)' is being made still, and goes on without the host")
        continue
      }
      if pending.run.outcome == .done, system.state(of: app.id) != .terminated {
        hasLeft(app, pending, checkpoints)
      } else {
        checkpoints.remove(app.name)
      }
    }
    for (name, pending) in restores {
      if pending.run.wait(until: end) {
        if pending.run.outcome == .done { checkpoints.remove(name) }
      } else {
        // CRIU is in it. It may have come to its end just now: what is killed stays in files anyhow.
        try? pending.group.kill()
        _ = pending.run.wait(until: Date() + 1)
        CheckpointTool.forgetRestore(from: checkpoints.path(name))
      }
      if let child = child(pending.kept.root) { LeftChildren.leave(child) }
    }
    restores = [:]
    checkpoints.leave()
  }
}
