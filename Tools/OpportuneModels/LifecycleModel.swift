import OpportuneApps

/// The requirements for one app, written from their rows and not from the table: it checks a log and reports
/// violations.
package struct LifecycleModel {
  package init() {}

  private enum Place { case gone, front, behind, asleep, stored }

  private var place = Place.gone
  private var isActive = false
  private var wasLaunched = false
  private var mayStart = false
  private var left: Moment?
  private var open: Set<TaskID> = []
  private var expired: [TaskID: Moment] = [:]
  private var pendingCallbacks: [Callback] = []
  package private(set) var problems: [String] = []
  package private(set) var isInFront = false

  package mutating func sees(_ action: AppEffect, at moment: Moment, _ policy: AppsPolicy) {
    switch action {
    case .moved(let from, let to, let event): moved(from, to, event, at: moment, policy)
    case .lifecycle(.start):
      mayStart = true
      wasLaunched = true
    case .lifecycle(.stopExecution): mayStart = false
    case .lifecycle(.resumeExecution):
      if place == .gone { problems.append("resumed what does not run") }
      mayStart = true
    case .lifecycle(.takeBack):
      mayStart = false
      if !open.isEmpty { problems.append("ended with open \(open)") }
    case .lifecycle(.deliver(let callback)): heard(callback)
    case .deliver, .data, .heartbeat, .fetch, .coalesced, .expire:
      // R-LIFE-06: nothing reaches what cannot run.
      if !mayStart { problems.append("\(action) reached an app that executes nothing") }
      if case .expire(let task) = action {
        if !open.contains(task) { problems.append("\(task) expires and is not open") }
        expired[task] = moment
        if let left, let limit = policy.tasks.wallClock, policy.tasks.cpuTime == nil,
          !policy.tasks.endsOnPowerLoss,
          policy.tasks.idleLimit == nil, !policy.tasks.endsOnDisplay, !policy.power.fullOnMains,
          moment - left != limit
        {
          // R-TASK-03
          problems.append("\(task) expires \(moment - left) after it left the front, not \(limit)")
        }
      }
    case .taskBegan(let task):
      if !open.insert(task).inserted || task == .invalid { problems.append("\(task) began twice") }
    case .taskEnded(let task):
      if open.remove(task) == nil { problems.append("\(task) ended and was not open") }
    default: break
    }
  }

  private mutating func moved(
    _ from: LifecycleState, _ to: LifecycleState, _ event: LifecycleEvent, at moment: Moment,
    _ policy: AppsPolicy
  ) {
    let old = place
    switch to.operational {
    case .notRunning, .terminated: place = .gone
    case .foreground: place = .front
    case .background: place = .behind
    case .suspended: place = .asleep
    case .hibernated: place = .stored
    }
    isInFront = place == .front
    isActive = to == .active
    // Woken while its last slices ran, it begins anew, as one that was suspended already.
    if place == .behind, old != .behind || from == .stopping { left = moment }
    if place == .front || place == .gone { left = nil }
    switch (old, place) {
    case (.gone, .asleep), (.gone, .stored), (.front, .asleep), (.front, .stored), (.behind, .stored),
      (.stored, .asleep):
      // R-MEM-05, R-FTS-01: only by way of the states between
      problems.append("went from \(old) to \(place)")
    case (.behind, .asleep):
      // R-FTS-01: not before the grace is over, if it came from the front and was not woken.
      break
    default: break
    }
    if place == .asleep, mayStart { problems.append("suspended and may still start") }
    if place == .asleep, !open.isEmpty { problems.append("suspended with open \(open)") }
    if place == .gone { pendingCallbacks = [] }
  }

  /// The order of callbacks (R-LIFE-09 to -14), as what may follow what within one life.
  private var last: Callback?
  private mutating func heard(_ callback: Callback) {
    if !mayStart { problems.append("\(callback) reached an app that executes nothing") }
    let allowed: [Callback?]
    switch callback {
    case .didFinishLaunching: allowed = [nil]
    case .didBecomeActive: allowed = [.didFinishLaunching, .willEnterForeground, .willResignActive]
    case .willResignActive: allowed = [.didBecomeActive]
    case .didEnterBackground: allowed = [.didFinishLaunching, .willResignActive, .willEnterForeground]
    case .willEnterForeground: allowed = [.didEnterBackground]
    case .willTerminate:
      allowed = [
        .didFinishLaunching, .didBecomeActive, .willResignActive, .didEnterBackground, .willEnterForeground,
      ]
    }
    if callback == .didFinishLaunching { last = nil }  // a new life
    if !allowed.contains(last) { problems.append("\(callback) after \(last.map(\.rawValue) ?? "nothing")") }
    if callback == .didBecomeActive, !isActive { problems.append("didBecomeActive and is not active") }
    if callback == .didEnterBackground, place != .behind {
      problems.append("didEnterBackground and is not behind")
    }
    last = callback == .willTerminate ? nil : callback
  }
}
