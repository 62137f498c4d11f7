internal import Glibc
internal import OpportuneApps
internal import OpportuneBase
internal import OpportuneMemory

/// What is done when memory is short.
extension HostCore {
  /// Memory is short, the kernel says, or somebody.
  ///
  /// - Returns: what was begun, for people.
  @discardableResult func memoryIsShort() -> [String] {
    let seen = apps.values.sorted { $0.name < $1.name }.map(seen(_:))
    let capacity = MachineMemory.system.machineReading()?.capacity ?? .max
    let told = shortage.isShort(at: now, seen, capacity: capacity).flatMap(carryOut(_:))
    for line in told { configuration.log("memory is short: \(line)") }
    return told
  }

  /// A group has told that it comes close to its limit. It tells once, so it is looked at again as long as
  /// that is so and there is a step that has not been taken.
  func lookAtGroups() {
    guard let due = looksAtGroups, due <= now else { return }
    looksAtGroups = nil
    guard configuration.groupPressures.contains(where: \.isShort) else { return }
    memoryIsShort()
    looksAtGroups = shortage.mayAct(after: now)
  }

  private func seen(_ app: HostedProcess) -> ShortagePolicy.App {
    let state = system.state(of: app.id)
    let isSuspended = state == .suspended || state == .hibernated
    let footprint: () -> UInt64 = {
      app.memory?.usage() ?? ProcessTable.memory(of: app.group.members())
    }
    return ShortagePolicy.App(
      name: app.name, isSuspended: isSuspended,
      isKept: app.declaredKeep != nil || app.exemption?.isOver(at: now) == false,
      isPagedOut: app.isPagedOut || app.checkpoint != nil,
      hears: state?.mayExecute == true
        && app.client?.questions.contains { $0.question == .memoryWarning } == false,
      footprint: isSuspended && shortage.answer == .terminate ? footprint() : 0,
      idle: now - app.used, wasInFront: app.wasInFront)
  }

  private func carryOut(_ step: ShortagePolicy.Step) -> [String] {
    switch step {
    case .warn(let names):
      let warned = names.filter { name in
        guard let app = apps[name] else { return false }
        // One that is being stopped hears nothing.
        return (try? post(.memoryWarning, to: app)) != nil
      }
      return warned.isEmpty ? [] : ["warned: \(warned.joined(separator: ", "))"]
    case .pageOut(let names):
      pageOut(names.compactMap { apps[$0] }, .shortage)
      return ["paging out what is suspended: \(names.joined(separator: ", "))"]
    case .terminate(let name, let why):
      let line = "'\(name)' is terminated: \(why)"
      apps[name]?.note(["memory was short: \(line)"])
      do throws(ProcessHostError) { try terminate(name, forMemory: true) } catch { return ["\(error)"] }
      return [line]
    }
  }

  /// Begins to page out what apps have in main memory, one after the other.
  func pageOut(_ apps: [HostedProcess], _ purpose: PageOut.Purpose) {
    let begun = apps.map { app in
      let pageOut = PageOut(app.name, purpose, app.memory, app.processes())
      app.pageOut = pageOut
      (app.isPagedOut, app.mayBeSwapped, app.hasFreed) = (true, true, true)
      return pageOut
    }
    pageOuts += begun
    let wakeUp = wakeUp
    runAside {
      for one in begun { one.run() }
      wakeUp()
    }
  }

  /// It goes on: what is in main memory of it stays there.
  func stopPagingOut(_ app: HostedProcess) {
    app.pageOut?.cancel()
    (app.pageOut, app.isPagedOut) = (nil, false)
    app.notes.removeAll { $0.hasPrefix(PageOut.Purpose.hibernation.rawValue) }
  }

  /// Tells of what has been paged out by now.
  func lookAtPageOuts() {
    guard !pageOuts.isEmpty else { return }
    let ended = pageOuts.compactMap { one in one.result.map { (one, $0) } }
    for (pageOut, result) in ended {
      guard let app = apps[pageOut.name], app.pageOut === pageOut else { continue }
      app.pageOut = nil
      app.hasFreed = result.hasFreed
      let text = result.text + (pageOut.purpose == .hibernation ? notSavedNote(app) : "")
      app.note(pageOut.purpose.rawValue, text)
      configuration.log("\(pageOut.purpose.rawValue)'\(app.name)': \(text)")
    }
    for (pageOut, result) in ended where pageOut.purpose == .shortage {
      pagedForShortage.before += result.before
      pagedForShortage.after += result.after
    }
    pageOuts.removeAll { one in ended.contains { $0.0 === one } }
    guard ended.contains(where: { $0.0.purpose == .shortage }),
      !pageOuts.contains(where: { $0.purpose == .shortage })
    else { return }
    shortage.pagingEnded(at: now, pagedForShortage)
    pagedForShortage = .init()
    // A group tells once: where paging out has not helped, the next step is not to wait for another word.
    if looksAtGroups != nil { looksAtGroups = shortage.mayAct(after: now) ?? now }
  }
}
