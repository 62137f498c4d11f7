/// The system's record of an app.
struct LifecycleRecord: Sendable {
  let id: AppID
  var manifest: Manifest
  var state = LifecycleState.notRunning
  /// The requested callbacks that have not returned; the first one runs.
  var callbacks: [Callback] = []
  var interruptions = 0
  var restrictions: Restrictions?
  var since = Moment.zero
  var lastUsed: Moment?

  var tasks: [OpenTask] = []
  var work: [TaskKind: Int] = [:]
  /// When the time limit of its background tasks ends.
  var budgetEnd: Moment?
  var cpuBehind: Duration = .zero
  var wantsTermination = false

  var audio: AudioActivity?
  var isPaused = false
  var hibernatesWhenStopped = false

  var queued: [Message] = []
  var wakes = Set(Wake.allCases)
  var locals: [ScheduledLocal] = []
  var changes: [String: String] = [:]
  var heartbeat: Duration?
  var fetchInterval: Duration?
  var isTracking = false

  var locks: [SharedResource: Int] = [:]
  var grants: Set<Hardware> = []
  var footprint: UInt64 = 0
  var compliance = ComplianceRecord()
  var totals = [Duration](repeating: .zero, count: LifecycleState.allCases.count)

  var plays: Bool { audio != nil && !isPaused }
}

/// An open task.
struct OpenTask: Sendable {
  let id: TaskID
  let kind: TaskKind
}

/// A local notification and when it fires, in seconds since 1970.
struct ScheduledLocal: Sendable {
  let notification: LocalNotification
  var fires: Double
}
