import Foundation
internal import Glibc
package import OpportuneApps

/// An app of the host: a group of processes, and where it is in its life.
///
/// Used by one thread at a time.
final class HostedProcess {
  let id: AppID
  let name: String
  let group: any ProcessGroup
  /// In the environment of its processes.
  let mark: String
  let classes: AppClass
  /// What counts its memory since its beginning.
  let memory: MemoryGroup?
  let limits: AppLimits
  /// Why it was launched.
  let launched: LaunchReason
  /// What its state takes from it.
  var restrictions = Restrictions.unrestricted
  /// It is ended because memory is short, and may be started anew.
  var isEndedForMemory = false
  /// The task that the host holds for it: see ``HostCore``.
  var task: TaskID?
  /// It may let go of its locks before it is suspended.
  var pending: PendingSuspension?
  var exemption: Exemption?
  /// What its manifest says; `nil`: it has none.
  let declared: HostManifest?
  /// Why its manifest keeps it from being suspended, unless its user has ended that.
  var declaredKeep: String? {
    isKeptByManifest ? declared?.keptBy(keepsSocketsAlive: client?.sockets.isEmpty == false) : nil
  }
  var isKeptByManifest = true
  /// Whether it gets the classes of background when its program has answered.
  var lowersLater = false
  /// Whether it is to be looked at which devices it has open.
  var isJudgedByDevices = false
  /// When its time in background is over.
  var backgroundEnd: Moment?
  /// When its own grace is over.
  var killAt: Moment?
  /// It runs for what has come for its sockets, or for messages, and is suspended again then.
  var isReanimated = false
  /// The process of it that has joined.
  var client: ProgramClient?
  /// Of which it has not been told, with their numbers, in their order.
  var messages: [(number: UInt64, message: Message)] = []
  /// It was started for them, and nobody has joined yet: until when it may.
  var joinsUntil: Moment?
  /// Why the last that had joined was left, for people.
  var leftBecause: String?
  /// When it was in front last, or began.
  var used: Moment
  var wasInFront = false
  var isInFront = false
  /// Since it was suspended, as far as that was possible.
  var isPagedOut = false
  /// Whether that took something, or is under way.
  var hasFreed = true
  /// It was paged out, and has not been in front since.
  var mayBeSwapped = false
  /// That has not ended.
  var pageOut: PageOut?
  /// The latest.
  var pageIn: PageIn?
  /// CRIU is writing it to files.
  var checkpoint: PendingCheckpoint?
  /// Why CRIU has not, since the app was suspended.
  var notCheckpointed: String?
  /// A descriptor of one member, which tells when that one has ended; -1: none could be opened.
  var watched: Int32 = -1
  /// Its process that is a child of this one, until that has ended.
  private(set) var child: HostChild?
  /// What was refused, for people; the latest of each kind.
  var notes: [String]

  init(
    id: AppID, name: String, group: any ProcessGroup, mark: String, classes: AppClass, memory: MemoryGroup?,
    limits: AppLimits, child: HostChild?, declared: HostManifest?, launched: LaunchReason, notes: [String],
    now: Moment
  ) {
    used = now
    self.memory = memory
    self.declared = declared
    self.child = child
    self.id = id
    self.name = name
    self.group = group
    self.mark = mark
    self.classes = classes
    self.limits = limits
    self.launched = launched
    self.notes = notes
  }

  /// When it is to be suspended by its manifest; who is kept has its time in background over no sooner than
  /// that ends.
  var suspendsAt: Moment? {
    guard let backgroundEnd, declaredKeep == nil, pending == nil else { return nil }
    guard let exemption else { return backgroundEnd }
    return exemption.end.map { max($0, backgroundEnd) }
  }

  /// Its processes by now.
  func processes() -> [ProcessID] { group.members().compactMap { ProcessStat(of: $0)?.id } }

  /// Takes the child away if it has ended.
  func reap() { if child?.reap() == true { child = nil } }

  /// The same, or leaves it to whichever host comes to see it end.
  func leaveChild() {
    reap()
    if let child { LeftChildren.leave(child) }
    child = nil
  }

  /// In place of an earlier one that begins the same.
  func note(_ start: String, _ rest: String) {
    notes.removeAll { $0.hasPrefix(start) }
    notes.append(start + rest)
  }

  func note(_ new: [String]) { for one in new where !notes.contains(one) { notes.append(one) } }
}

/// An app that is to be suspended, and holds locks or has not answered.
struct PendingSuspension {
  let askedAt: Moment
  let policy: LockPolicy
  /// When it is looked at again.
  let until: Moment
  let reason: String
  /// Whether it waits for its program's answer, and for no lock.
  var isForAnswer = false
  /// Its program saves its state, and is ended then; `nil`: it is to be suspended.
  var saving: Saving?

  struct Saving {
    /// For people.
    let notBetter: String
    /// It goes on for this alone, and is to be suspended again if it saves nothing.
    let wasStopped: Bool
    /// Of the state that it has saved; `nil`: it has not yet.
    var flush: StateFlush?
  }
}

/// What is told of an app.
package struct AppEntry: Sendable, Hashable, Codable {
  /// Its name.
  package var id: String
  package var pids: [Int32]
  /// `foreground`, `background`, `suspended`, `hibernated` or `terminated`; the last while it is being ended.
  package var state: String
  /// Its control group; `nil` where it has none.
  package var cgroup: String?
  package var cpuSeconds: Double
  package var memoryBytes: UInt64
  /// How the memory was found; `nil` where no process of it runs.
  package var memoryBy: MemoryUse.Source?
  /// How it is hibernated; `nil` in other states.
  package var hibernatedBy: HibernationWay.Name?
  /// Why it may run in the background.
  package var keptBy: [String]
  /// Its sockets for which what comes reanimates it.
  package var keptSockets: Int
  /// Its local notifications that are to fire.
  package var scheduled: Int
  /// What could not be done for it.
  package var notes: [String]

  package enum CodingKeys: String, CodingKey {
    case id, pids, state, cgroup, scheduled, notes
    case cpuSeconds = "cpu_s"
    case memoryBytes = "memory_bytes"
    case memoryBy = "memory_by"
    case hibernatedBy = "hibernated_by"
    case keptBy = "kept_by"
    case keptSockets = "kept_sockets"
  }

  /// Of an app that has no process.
  package static func withoutProcess(
    _ id: String, _ state: LifecycleState.Operational, hibernatedBy way: HibernationWay.Name? = nil,
    scheduled: Int = 0, notes: [String] = []
  ) -> AppEntry {
    AppEntry(
      id: id, pids: [], state: state.rawValue, cgroup: nil, cpuSeconds: 0, memoryBytes: 0, memoryBy: nil,
      hibernatedBy: way, keptBy: [], keptSockets: 0, scheduled: scheduled, notes: notes)
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(id, forKey: .id)
    try container.encode(pids, forKey: .pids)
    try container.encode(state, forKey: .state)
    try container.encode(cgroup, forKey: .cgroup)  // null, so that each entry has the same keys
    try container.encode(cpuSeconds, forKey: .cpuSeconds)
    try container.encode(memoryBytes, forKey: .memoryBytes)
    try container.encode(memoryBy, forKey: .memoryBy)
    try container.encode(hibernatedBy, forKey: .hibernatedBy)
    try container.encode(keptBy, forKey: .keptBy)
    try container.encode(keptSockets, forKey: .keptSockets)
    try container.encode(scheduled, forKey: .scheduled)
    try container.encode(notes, forKey: .notes)
  }
}

/// What has become of an app.
package struct AppChange: Sendable, Hashable {
  package var name: String
  /// As of ``AppEntry``; `nil`: it has ended.
  package var state: String?
}

/// How a host of processes behaves.
package struct HostConfiguration: Sendable {
  /// How groups are made.
  package var backend = Backend.auto
  /// What starts programs; `nil`: this process itself, which may not once it is confined.
  package var starter: ProgramStarter?
  /// From SIGTERM to the kill of what is left.
  package var grace: Duration = .seconds(5)
  /// How long a program that has joined may take for each answer.
  package var answerGrace: Duration = .seconds(5)
  /// How long background tasks of such a program may go on when it is to be suspended.
  package var taskLimit: Duration = .seconds(30)
  /// The shortest time between two heartbeats of one that is suspended; a shorter one is refused. (R-VOIP-02)
  package var leastHeartbeat: Duration = .seconds(600)
  /// How long a program that was started for a message may take to join.
  package var joinLimit: Duration = .seconds(30)
  /// What tells that memory is short; `nil`: only requests do.
  package var pressure: MemoryPressure?
  /// What tells that a group of the host comes close to its limit.
  package var groupPressures: [GroupPressure] = []
  /// How long a request for suspension waits until everything has stopped.
  package var freezeLimit: Duration = .seconds(1)
  /// The file in which it writes down what a host after it would not find; `nil`: none. Of this host alone.
  package var record: String?
  /// The socket of this host, in the environment of what it starts, so that a program that joins finds this
  /// host; `nil`: what is in the host's own environment. A path from the root.
  package var socket: String?
  /// The folder of the states that programs save to be started anew with, of this host alone; `nil`: none are
  /// saved. (R-LIFE-07)
  package var states: String?
  /// Whether there is a place for what is paged out and is no file's; `nil`: as the kernel says.
  package var hasSwap: Bool?
  /// What makes checkpoints where there is no such place; `nil`: nothing. They are in the folder of states.
  package var checkpoints: CheckpointTool?
  /// What is done when memory is short.
  package var shortage = ShortagePolicy()
  /// A suspended app is hibernated that was in front, or began, so long ago; `nil`: only who is asked for is.
  package var hibernatesAfter: Duration?
  /// What becomes of an app that holds locks when it is to be suspended.
  package var locks = LockPolicy()
  /// What is known of apps that do not run.
  package var catalog = ManifestCatalog()
  /// Where the focus is told of; `nil`: who is in front is told by command alone.
  package var front: (any FrontSource)?
  /// The X display that is to answer after an app is frozen; `nil`: none is looked at.
  package var display: X11Display?
  /// The sway of which nothing is suspended that it shows; `nil`: none is asked.
  package var sway: SwayFront?
  /// How long it may take for that.
  package var displayLimit: Duration = .milliseconds(250)
  /// Called with what people should know, as of the display, on any thread. It may not call the host.
  package var log: @Sendable (String) -> Void = { _ in }
  /// Called when apps have come, changed state or ended, on any thread. It may not call the host, nor block.
  package var changed: (@Sendable ([AppChange]) -> Void)?
  /// Called when a local notification of an app fires, for who shows it, on any thread. It may not call the
  /// host, nor block.
  package var notified: (@Sendable (FiredNotification) -> Void)?
  /// What local notifications fire by: seconds since 1970.
  package var wallClock: @Sendable () -> Double = { Date().timeIntervalSince1970 }
  /// Devices that apps in background may not open.
  package var deniedDevices = DeviceList.ordinary
  /// What becomes of an app that has one of these open when it goes to background, unless its manifest says
  /// so.
  package var heldDevices = HeldDevices.Answer.tell
  /// What apps in background have of the network, unless their manifest says so.
  package var network = NetworkLimit.none
  /// How fast apps in background read and write, unless their manifest says so.
  package var storage = StorageLimit.none
  /// Whether classes are set by control groups where that may be.
  package var usesClassGroups = true
  /// Whether memory is counted by a control group where that may be.
  package var usesMemoryGroups = true
  /// How long a host waits for what CRIU is at, in all, when it starts, and when it ends.
  package var checkpointLimits = (start: Duration.seconds(5), end: Duration.seconds(60))
  /// Has files and folders outlive a loss of power.
  package var flush: @Sendable ([String]) -> (path: String, error: Int32)? = SavedStates.flush
  /// What is to be handed down to groups of version 2; a test takes what the machine has.
  package var controllers: Set<String> = HostLeaf.controllers

  package init() {}

  /// The policy of the lifecycle.
  ///
  /// A program that was not written for the host reports no tasks or audio. In background it runs
  /// on because the host holds a task for it, without a limit, and is suspended by that task's end.
  var policy: AppsPolicy {
    var policy = AppsPolicy()
    policy.tasks.wallClock = nil
    policy.network.minimumHeartbeat = leastHeartbeat
    policy.suspendsOnReturn = true
    policy.completionsReanimate = true
    // Processes that wait for a disk stop when the kernel lets them: no reason to lose their work.
    policy.sliceOverrun = .report
    // The host has limits of its own for callbacks, each from when it is asked, and goes on after them as if
    // they had returned; an overrun would terminate.
    policy.callbackLimit = .seconds(86_400)
    policy.grace = .seconds(86_400)
    policy.restrictions.foregroundHardware = Set(deniedDevices.devices.keys)
    return policy
  }
}
