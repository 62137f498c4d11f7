internal import OpportuneApps

/// Which app is in front, by what a display or a terminal tells of the focus and what a user has said. Pure.
///
/// The focus of an app's window, or job, brings that app forward at once. The focus of anything else takes
/// the foreground only from an app that had it by its window or job: what a user has put in front without
/// stays there until an app is focused. It takes it after a moment, since window managers focus nothing in
/// between when they switch. Of terminals the one counts that was typed into last, if its job is an app's;
/// that stays in front until its own terminal has another.
struct FrontPolicy: Sendable {
  /// How long nothing of the host is focused before the app that was goes to the background.
  static let settling: Duration = .milliseconds(200)

  enum Decision: Sendable, Hashable {
    case stay
    case bringForward(String)
    case leave(String)
  }

  private(set) var focused: FrontTarget?
  /// The app to which that belongs.
  private(set) var owner: String?
  /// The app that is in front because its window is, or was until just now.
  private(set) var shown: String?
  /// The terminal whose job it is; `nil`: it has a window.
  private(set) var terminal: String?
  /// When that app goes to the background.
  private(set) var leavesAt: Moment?

  /// The focus has moved.
  ///
  /// - Parameters:
  ///   - target: `nil`: to no window, or nobody knows whose it is.
  ///   - owner: the app to which that belongs; `nil`: to none.
  ///   - front: the app in front by now.
  mutating func focus(
    _ target: FrontTarget?, owner: String?, front: String?, now: Moment
  ) -> Decision {
    var terminal: String?
    if case .job(let job) = target {
      terminal = job.terminal
      if job.isUsed { (focused, self.owner) = (target, owner) }
      if !job.isUsed || owner == nil {
        // What other terminals do takes nothing from who is in front by its own, as it would where one shows
        // another, and where it is another user's.
        guard shown != nil, terminal == self.terminal else { return .stay }
        if owner == shown { leavesAt = nil } else if leavesAt == nil { leavesAt = now + Self.settling }
        return .stay
      }
    } else {
      (focused, self.owner) = (target, owner)
    }
    guard let owner else {
      if shown != nil, leavesAt == nil { leavesAt = now + Self.settling }
      return .stay
    }
    (shown, self.terminal, leavesAt) = (owner, terminal, nil)
    return owner == front ? .stay : .bringForward(owner)
  }

  /// Decides what is due by now.
  mutating func advance(front: String?, now: Moment) -> Decision {
    guard let end = leavesAt, end <= now else { return .stay }
    defer { (shown, leavesAt) = (nil, nil) }
    return shown.flatMap { $0 == front ? .leave($0) : nil } ?? .stay
  }

  /// An app has begun.
  ///
  /// - Parameter hasFocused: whether what is focused belongs to it.
  mutating func began(_ name: String, hasFocused: Bool, front: String?, now: Moment) -> Decision {
    hasFocused ? focus(focused, owner: name, front: front, now: now) : .stay
  }

  /// A user has put an app in front, which stands until the focus moves to another app's window.
  mutating func said(_ name: String) {
    (shown, leavesAt) = (name == owner ? name : nil, nil)
    if case .job(let job) = focused { terminal = job.terminal } else { terminal = nil }
  }

  mutating func ended(_ name: String) {
    if owner == name { owner = nil }
    if shown == name { (shown, leavesAt) = (nil, nil) }
  }
}
