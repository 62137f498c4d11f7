import Foundation

/// What docs/host.md promises to who uses a host: what a request leads to, and what it is refused for.
/// Nothing of the host's code is in it, and it knows no clock.
struct DayModel {
  typealias Instant = ContinuousClock.Instant

  /// As `opportune apps` has them.
  enum State: String {
    case foreground, background, suspended, hibernated, terminated

    var runs: Bool { self == .foreground || self == .background }
    var isStopped: Bool { self == .suspended || self == .hibernated }
  }

  /// By the words of the answer.
  enum Refusal: String, CaseIterable {
    case unknown = "there is no app '"
    case exempt = "--end ends that"
    case notRunning = "it does not run: "
    case ending = "it is being ended"
    case taken = "choose another name"
    case another = "belongs to the app '"
  }

  enum Answer: Hashable, CustomStringConvertible {
    case done
    /// Where its program was started for it.
    case started
    case refused(Refusal)

    var description: String {
      switch self {
      case .done: "done"
      case .started: "started"
      case .refused(let why): "refused: \(why)"
      }
    }
  }

  enum Request {
    /// By `opportune run -- PROGRAM`, or `adopt`.
    case launch(foreground: Bool)
    /// By its manifest, unless it runs.
    case start(foreground: Bool)
    case front, suspend, resume, hibernate, terminate
    case keep(seconds: Double?)
    case endKeep
  }

  /// A time that was begun between two instants is over between two.
  struct Keep {
    /// `nil`: without end.
    var end: ClosedRange<Instant>?

    /// Whether it holds from one instant to another; `nil`: that cannot be told.
    func holds(from start: Instant, to stop: Instant) -> Bool? {
      guard let end else { return true }
      if stop < end.lowerBound { return true }
      return start > end.upperBound ? false : nil
    }
  }

  struct App {
    var state: State
    var keep: Keep?
    /// Its program ends by itself, or processes of it were killed from outside.
    var mayEnd: Bool
    /// It is being ended: when nothing of it may be left.
    var endsBy: Instant?
  }

  /// Names that have a manifest.
  let manifests: Set<String>
  /// Names whose programs end by themselves.
  var shortLived: Set<String> = []
  /// From SIGTERM to the kill, and how long the rest may take.
  let grace: Duration
  let patience: Duration

  private(set) var apps: [String: App] = [:]

  init(manifests: Set<String>, grace: Duration, patience: Duration) {
    (self.manifests, self.grace, self.patience) = (manifests, grace, patience)
  }

  /// What a request may be answered, and no other.
  func expected(_ request: Request, of name: String, asked: Instant, answered: Instant) -> Set<Answer> {
    guard let app = apps[name] else {
      switch request {
      case .launch: return [.done]
      case .start, .front: return manifests.contains(name) ? [.started] : [.refused(.unknown)]
      case .suspend, .resume, .hibernate, .terminate, .keep, .endKeep: return [.refused(.unknown)]
      }
    }
    // Who is on its way out may be gone when it is asked for.
    let mayBeGone = app.mayEnd || app.state == .terminated
    let ifGone: Set<Answer> = mayBeGone ? [.refused(.unknown)] : []
    let isEnding = app.state == .terminated
    switch request {
    case .launch: return mayBeGone ? [.refused(.taken), .done] : [.refused(.taken)]
    case .start, .front:
      let ifStarted: Set<Answer> = manifests.contains(name) ? (mayBeGone ? [.started] : []) : ifGone
      return ifStarted.union(isEnding ? [.refused(.ending)] : [.done])
    case .resume: return ifGone.union(isEnding ? [.refused(.ending)] : [.done])
    case .suspend, .hibernate:
      if isEnding { return ifGone.union([.refused(.ending)]) }
      switch app.keep.map({ $0.holds(from: asked, to: answered) }) ?? false {
      case true: return ifGone.union([.refused(.exempt)])
      case false: return ifGone.union([.done])
      default: return ifGone.union([.refused(.exempt), .done])
      }
    case .keep: return ifGone.union(app.state.runs ? [.done] : [.refused(.notRunning)])
    case .terminate, .endKeep: return ifGone.union([.done])
    }
  }

  /// Follows a request.
  ///
  /// - Returns: what is wrong with its answer.
  mutating func follow(
    _ request: Request, of name: String, _ answer: Answer, asked: Instant, answered: Instant
  ) -> String? {
    let expected = expected(request, of: name, asked: asked, answered: answered)
    guard expected.contains(answer) else {
      let those = expected.map(\.description).sorted().joined(separator: " or ")
      return "it is answered '\(answer)', expected: \(those)"
    }
    switch answer {
    case .refused(.unknown): apps[name] = nil
    case .refused: break
    case .started: begin(name, request)
    case .done: apply(request, to: name, asked: asked, answered: answered)
    }
    return nil
  }

  private mutating func begin(_ name: String, _ request: Request) {
    apps[name] = App(state: .background, mayEnd: shortLived.contains(name))
    switch request {
    case .launch(true), .start(true), .front: bringForward(name)
    default: break
    }
  }

  /// One app is in front at most. (R-LIFE-04)
  private mutating func bringForward(_ name: String) {
    for other in apps.keys where apps[other]?.state == .foreground { apps[other]?.state = .background }
    apps[name]?.state = .foreground
  }

  private mutating func apply(_ request: Request, to name: String, asked: Instant, answered: Instant) {
    if case .launch = request { return begin(name, request) }
    guard let app = apps[name] else { return }
    switch request {
    case .launch: break
    case .front, .start(true): bringForward(name)
    case .resume, .start(false): if app.state.isStopped { apps[name]?.state = .background }
    case .suspend: if app.state.runs { apps[name]?.state = .suspended }
    case .hibernate: apps[name]?.state = .hibernated
    case .terminate:
      guard app.state != .terminated else { return }
      // Nothing of one that is stopped runs any more, so it has no grace.
      apps[name]?.endsBy = answered + (app.state.runs ? grace : .zero) + patience
      apps[name]?.state = .terminated
    case .keep(let seconds):
      let end = seconds.map { asked + .seconds($0)...answered + .seconds($0) }
      apps[name]?.keep = Keep(end: end)
    case .endKeep: apps[name]?.keep = nil
    }
  }

  /// A process of it was killed by somebody else: what is left may end by itself.
  mutating func wasHurt(_ name: String) { apps[name]?.mayEnd = true }

  /// All of it was.
  mutating func wasKilled(_ name: String, by answered: Instant) {
    apps[name]?.mayEnd = true
    apps[name]?.endsBy = answered + patience
  }

  /// No process of it is there any more.
  ///
  /// - Returns: what is wrong with that.
  mutating func ended(_ name: String) -> String? {
    guard let app = apps[name] else { return nil }
    guard app.mayEnd || app.state == .terminated else { return "it has ended, and nobody has ended it" }
    apps[name] = nil
    return nil
  }
}
