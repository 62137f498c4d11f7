/// A best practice for apps; the host counts violations. (R-RULE-01 to -12)
public enum BestPractice: UInt8, Sendable, Hashable, CaseIterable, Comparable {
  /// Do as little as possible in the background.
  case minimumInBackground = 1
  /// Do not draw in the background.
  case noDrawingInBackground
  /// Do not use the GPU in the background.
  case noGraphicsHardware
  /// Save when entering the background.
  case saveOnEnteringBackground
  /// Release shared resources when entering the background.
  case stopSharedResources
  /// Release what can be rebuilt.
  case releaseMemory
  /// Cancel discovery of services.
  case cancelDiscovery
  /// Pause when the app loses the user's input.
  case pauseOnResign
  /// React to changes when returning.
  case undoOnReturn
  /// Begin a task for long work.
  case taskForLongWork
  /// Ask whether multitasking is supported.
  case askForMultitasking
  /// Prefer significant changes to all locations.
  case preferSignificantChanges

  public static func < (left: BestPractice, right: BestPractice) -> Bool { left.rawValue < right.rawValue }

  /// The id of the requirement.
  package var id: String { "R-RULE-\(rawValue < 10 ? "0" : "")\(rawValue)" }

  /// The rule in words.
  public var text: String {
    switch self {
    case .minimumInBackground: "do only the minimum in background"
    case .noDrawingInBackground: "do not draw in background"
    case .noGraphicsHardware: "do not use graphics hardware in background, and release it before"
    case .saveOnEnteringBackground: "save state on entering background"
    case .stopSharedResources: "let go of shared resources on entering background"
    case .releaseMemory: "release memory that can be rebuilt on entering background"
    case .cancelDiscovery: "cancel service discovery on entering background"
    case .pauseOnResign: "stop timers and pause work on resigning active"
    case .undoOnReturn: "answer what changed meanwhile on entering the foreground"
    case .taskForLongWork: "wrap long work in a task and end it"
    case .askForMultitasking: "ask whether multitasking is supported before relying on it"
    case .preferSignificantChanges: "prefer significant changes to continuous tracking, above all on battery"
    }
  }

  /// What the app's code is to call, and where, so that the rule is kept. Calls without a type are those of
  /// ``HostedApp`` and ``AppDelegate``.
  public var remedy: String {
    switch self {
    case .minimumInBackground:
      "stop the work in didEnterBackground(), and go on in willEnterForeground()"
    case .noDrawingInBackground:
      "stop drawing in willResignActive(), and go on in didBecomeActive()"
    case .noGraphicsHardware:
      "call post(.release(.gpu)) in willResignActive(), and request(.gpu) in didBecomeActive()"
    case .saveOnEnteringBackground:
      "save in didEnterBackground() at the latest, and call post(.compliance(.saves)) then"
    case .stopSharedResources: "call post(.unlock(resource)) in didEnterBackground()"
    case .releaseMemory:
      "release it in didEnterBackground(), and call post(.compliance(.rebuildable(0))) then"
    case .cancelDiscovery:
      "cancel it in didEnterBackground(), and call post(.compliance(.discoveryStops)) then"
    case .pauseOnResign: "stop it in willResignActive(), and call post(.compliance(.timerStops)) then"
    case .undoOnReturn:
      "handle didReceive(.changes(changes)), and call post(.compliance(.answers(kind: change.kind))) for each"
    case .taskForLongWork:
      "call withBackgroundTask, or endTask(_:) for each task that beginTask has begun, also when its time is up"
    case .askForMultitasking: "call isMultitaskingSupported() before beginTask or withBackgroundTask"
    case .preferSignificantChanges:
      "ask for LocationRequest.significantChange(distance:) in place of .tracking(accuracy:)"
    }
  }

  /// How a violation shows.
  package var sign: String {
    switch self {
    case .minimumInBackground: "more CPU time in background than a tenth of the time there, beyond a second"
    case .noDrawingInBackground: "it drew in background; nothing came of it"
    case .noGraphicsHardware: "it asked for the GPU in background, or held it as it went there"
    case .saveOnEnteringBackground:
      "didEnterBackground returned and nothing had been saved since the foreground"
    case .stopSharedResources: "didEnterBackground returned and a shared resource was held"
    case .releaseMemory: "didEnterBackground returned and memory that can be rebuilt was held"
    case .cancelDiscovery: "didEnterBackground returned and discovery ran"
    case .pauseOnResign: "willResignActive returned and a timer ran"
    case .undoOnReturn: "it heard of a change on its return and left the front again without an answer"
    case .taskForLongWork: "it worked on past the end of its time, or never ended a task"
    case .askForMultitasking: "it began a task without having asked"
    case .preferSignificantChanges: "it tracked continuously in background on battery"
    }
  }
}

/// Something that an app does and a best-practice rule covers. ``HostedApp/isMultitaskingSupported()``
/// reports itself, and a live host detects work in the background and drawing into a ``DrawingBuffer``. All
/// others are posted by the app, or by its toolkit.
public enum Compliance: Sendable, Hashable {
  /// It asks whether multitasking is supported.
  case asksForMultitasking
  /// It saves its state.
  case saves
  /// It draws.
  case draws
  /// It starts a timer.
  case timerStarts
  /// It stops a timer.
  case timerStops
  /// It starts the discovery of services.
  case discoveryStarts
  /// It stops the discovery of services.
  case discoveryStops
  /// It holds this many bytes that it could rebuild.
  case rebuildable(UInt64)
  /// It has handled a change of this kind.
  case answers(kind: String)
}

/// The record of an app's compliance.
struct ComplianceRecord: Sendable {
  var broken: [BestPractice: Int] = [:]
  var hasAsked = false
  var hasSaved = false
  var timers = 0
  var discoveries = 0
  var rebuildable: UInt64 = 0
  var unanswered: Set<String> = []
  var hasWorkedTooMuch = false

  /// Violations are kept beyond the app's end.
  mutating func reset() {
    let broken = broken
    self = ComplianceRecord()
    self.broken = broken
  }
}

extension AppSystem {
  mutating func breaks(_ rule: BestPractice, _ id: AppID) {
    apps[id.number].compliance.broken[rule, default: 0] += 1
    emit(.diagnose(.rule(rule)), id)
  }

  mutating func behaves(_ compliance: Compliance, _ id: AppID) throws(AppsError) {
    try requireExecuting(id)
    let index = id.number
    switch compliance {
    case .asksForMultitasking: apps[index].compliance.hasAsked = true
    case .saves: apps[index].compliance.hasSaved = true
    case .draws: if !restrictions(of: id).mayDraw { breaks(.noDrawingInBackground, id) }
    case .timerStarts: apps[index].compliance.timers += 1
    case .timerStops:
      guard apps[index].compliance.timers > 0 else { throw AppsError(.notHeld(id, "a running timer")) }
      apps[index].compliance.timers -= 1
    case .discoveryStarts: apps[index].compliance.discoveries += 1
    case .discoveryStops:
      guard apps[index].compliance.discoveries > 0 else {
        throw AppsError(.notHeld(id, "a running discovery"))
      }
      apps[index].compliance.discoveries -= 1
    case .rebuildable(let bytes): apps[index].compliance.rebuildable = bytes
    case .answers(let kind): apps[index].compliance.unanswered.remove(kind)
    }
  }

  mutating func workedInBackground(_ used: Duration, of stay: Duration, _ id: AppID) {
    if Self.isTooMuch(used, of: stay), !hasFullPower { breaks(.minimumInBackground, id) }
  }

  mutating func complianceEntersForeground(_ id: AppID) {
    apps[id.number].compliance.hasSaved = false
    apps[id.number].compliance.hasWorkedTooMuch = false
    apps[id.number].compliance.unanswered = []
  }

  mutating func complianceHears(_ kinds: [String], _ id: AppID) {
    apps[id.number].compliance.unanswered.formUnion(kinds)
  }

  mutating func complianceEntersBackground(_ id: AppID) {
    apps[id.number].compliance.hasWorkedTooMuch = false
    if !apps[id.number].compliance.unanswered.isEmpty { breaks(.undoOnReturn, id) }
    apps[id.number].compliance.unanswered = []
    if apps[id.number].grants.contains(.gpu), restrictions(of: id).deniedHardware.contains(.gpu) {
      breaks(.noGraphicsHardware, id)
    }
  }

  mutating func complianceEnteredBackground(_ id: AppID) {
    let app = apps[id.number]
    guard app.state == .background else { return }
    if !app.compliance.hasSaved { breaks(.saveOnEnteringBackground, id) }
    if !app.locks.isEmpty { breaks(.stopSharedResources, id) }
    if app.compliance.rebuildable > 0 { breaks(.releaseMemory, id) }
    if app.compliance.discoveries > 0 { breaks(.cancelDiscovery, id) }
    if app.isTracking { complianceTracks(id) }
  }

  mutating func complianceResigned(_ id: AppID) {
    if apps[id.number].compliance.timers > 0 { breaks(.pauseOnResign, id) }
  }

  mutating func complianceBeginsTask(_ id: AppID) {
    if !apps[id.number].compliance.hasAsked { breaks(.askForMultitasking, id) }
  }

  mutating func complianceTracks(_ id: AppID) {
    if apps[id.number].state == .background, power == .battery { breaks(.preferSignificantChanges, id) }
  }

  /// A violation is more than a second, and more than a tenth of the stay. Audio and real-time streams have
  /// their own limits.
  mutating func complianceWorks(_ time: Duration, _ id: AppID) {
    let app = apps[id.number]
    guard !app.compliance.hasWorkedTooMuch, audioService(app) == nil, !hasFullPower else { return }
    guard Self.isTooMuch(app.cpuBehind, of: now - app.since) else { return }
    apps[id.number].compliance.hasWorkedTooMuch = true
    breaks(.minimumInBackground, id)
  }

  private static func isTooMuch(_ used: Duration, of stay: Duration) -> Bool {
    used > .seconds(1) && used > stay / 10
  }

  mutating func complianceIsSuspended(_ id: AppID) { apps[id.number].compliance.hasWorkedTooMuch = false }
}
