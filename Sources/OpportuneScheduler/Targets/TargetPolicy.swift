/// How many workers background work may have, so that the requests of apps with a target are answered in
/// time: a pure function of what was counted and the time.
///
/// A target is missed in a window where more than one in a hundred of its requests were late. Background then
/// has half of its workers, one at least (law 3); where it was missed by little, a few less. Where all
/// targets hold with room, and background uses all that it may, it gets a few more.
///
/// The number at which a target was last missed is remembered: up to there the distance is halved, and it is
/// tried again only after a pause, which doubles with each trial that fails. A trial that fails is undone,
/// and takes no more than it gave. So it costs the target little to learn that no more can be had.
/// (docs/targets.md)
package struct TargetPolicy: Sendable {
  package typealias Reason = SchedulerStatistics.BackgroundShare.Reason

  /// One app with a target, and what was counted of its requests since the target was first set.
  package struct Reading: Sendable {
    let app: UInt64
    /// In nanoseconds, of ``AppTarget/p99Range``.
    let p99: UInt64
    let requests: Requests

    package init(app: UInt64, p99: UInt64, requests: Requests) {
      (self.app, self.p99, self.requests) = (app, p99, requests)
    }
  }

  package struct Requests: Sendable, Hashable {
    package var answered: UInt64 = 0
    /// Of these: later than the target.
    package var late: UInt64 = 0
    /// Of these: later than ``room`` of it.
    package var close: UInt64 = 0

    package init(answered: UInt64 = 0, late: UInt64 = 0, close: UInt64 = 0) {
      (self.answered, self.late, self.close) = (answered, late, close)
    }

    static func - (now: Requests, before: Requests) -> Requests {
      Requests(
        answered: now.answered &- before.answered, late: now.late &- before.late,
        close: now.close &- before.close)
    }
  }

  /// A new number of workers. `outOfReach` is told once, and changes nothing.
  package struct Change: Sendable, Hashable {
    package let from: Int
    package let to: Int
    package let reason: Reason
    /// The app whose target is the reason; nil where it is no single one.
    let app: UInt64?
  }

  /// The target holds with room where 99 of 100 are answered within this share of it: below, as more workers
  /// would else bring it over the target at once; and not far below, since what is left is lost to
  /// background.
  static let room = 0.9
  /// The shortest window in nanoseconds: some requests of most programs, and a pause that nobody notices.
  static let shortestWindow: UInt64 = 500_000_000
  /// So many requests say what the 99th percentile is.
  static let enough: UInt64 = 100
  /// In windows: when few requests must do.
  static let patience: UInt64 = 20
  /// In windows: the pause after a target was missed, and the longest.
  static let pause: UInt64 = 16
  static let longestPause: UInt64 = 128

  private struct Window {
    let p99: UInt64
    let base: Requests
    let began: UInt64
    /// The most workers of background that were seen inside jobs.
    var most = 0
    /// What the window before it said, and how many workers background used then.
    var last: (verdict: Verdict, most: Int)?
  }

  private enum Verdict {
    case late
    /// Over a long window, and by little.
    case lateByLittle
    case close, room, noRequests

    var isMiss: Bool { self == .late || self == .lateByLittle }
  }

  /// The number at which a target was missed.
  private struct Miss {
    let limit: Int
    let pause: UInt64
    let until: UInt64
  }

  /// The last raise, as long as it may be undone.
  private struct Trial {
    let from: Int
    let until: UInt64
  }

  /// How many workers background may have; nil is all.
  package private(set) var cap: Int?
  private var windows: [UInt64: Window] = [:]
  private var miss: Miss?
  private var trial: Trial?
  /// Until then nothing is judged: requests that had begun before the last cut come to their ends.
  private var settledAt: UInt64 = 0
  private var hasToldOutOfReach = false

  package init() {}

  /// - Parameters:
  ///   - readings: the apps whose targets hold now.
  ///   - running: workers of background that are inside jobs now, and are limited by the cap.
  ///   - width: how many there are without a cap.
  ///   - now: nanoseconds of a clock that does not go back.
  package mutating func look(_ readings: [Reading], running: Int, width: Int, now: UInt64) -> Change? {
    guard !readings.isEmpty else {
      let change = cap.map { Change(from: min($0, width), to: width, reason: .noTarget, app: nil) }
      self = TargetPolicy()
      return change
    }
    guard now >= settledAt else { return nil }
    let limit = min(cap ?? width, width)
    // Jobs go on to the ends of their slices: what the last cut brings has not shown yet.
    guard running <= limit else {
      windows = [:]
      return nil
    }
    let known = windows
    windows = [:]
    var late: Reading?
    for reading in readings {
      var window =
        known[reading.app].flatMap { $0.p99 == reading.p99 ? $0 : nil }
        ?? Window(p99: reading.p99, base: reading.requests, began: now)
      window.most = max(window.most, running)
      if let verdict = judge(window, reading.requests, now) {
        if verdict.isMiss, late == nil { late = reading }
        window = Window(
          p99: reading.p99, base: reading.requests, began: now, last: (verdict, window.most))
      }
      windows[reading.app] = window
    }
    if let trial, now >= trial.until {
      self.trial = nil
      if let miss, limit >= miss.limit { self.miss = nil }
    }
    let length = readings.map { Self.length($0.p99) }.max() ?? Self.shortestWindow
    return if let late { cut(late, limit, width, length, now) } else {
      raise(readings, limit, width, length, now)
    }
  }

  /// Of a window: several answers fit into it.
  private static func length(_ p99: UInt64) -> UInt64 { max(shortestWindow, 4 * p99) }

  private static func step(_ width: Int) -> Int { max(1, width / 8) }

  /// nil until enough is known.
  private func judge(_ window: Window, _ requests: Requests, _ now: UInt64) -> Verdict? {
    let (counted, elapsed) = (requests - window.base, now.saturatingSubtract(window.began))
    let length = Self.length(window.p99)
    let isLong = elapsed >= length
    guard isLong || counted.answered >= Self.enough else { return nil }
    let isOver = elapsed >= Self.patience * length
    let allowed = max(counted.answered, Self.enough) / 100
    if isOver {
      // Where just as many are late as may be, every other second has more: a long window has to hold better.
      if counted.late > (allowed < 10 ? allowed : allowed * 3 / 4) { return .lateByLittle }
      if counted.answered == 0 { return .noRequests }
      return counted.close > allowed ? .close : .room
    }
    // By chance a few more than allowed are late now and then: then the window goes on, until that is no
    // chance any more, or has been made up for.
    if Double(counted.late) > Double(allowed) + 3 * Double(allowed).squareRoot() { return .late }
    return isLong && counted.answered >= Self.enough && counted.close <= allowed ? .room : nil
  }

  /// Multiplicative, where the target is missed by much, and no trial is to be undone.
  private mutating func cut(
    _ late: Reading, _ limit: Int, _ width: Int, _ length: UInt64, _ now: UInt64
  ) -> Change? {
    let last = windows[late.app]?.last
    windows = [:]
    guard let last, last.most > 0, limit > 1 else {
      defer { hasToldOutOfReach = true }
      return hasToldOutOfReach ? nil : Change(from: limit, to: limit, reason: .outOfReach, app: late.app)
    }
    let wasTrial = miss.map { limit >= $0.limit } ?? false
    let pause =
      if trial != nil, wasTrial, let miss {
        min(miss.pause * 2, Self.longestPause * length)
      } else {
        Self.pause * length
      }
    miss = Miss(limit: limit, pause: pause, until: now.saturatingAdd(pause))
    let (to, reason): (Int, Reason) =
      if let trial, trial.from < limit { (trial.from, .lateOnTrial) } else {
        (last.verdict == .late ? max(1, limit / 2) : max(1, limit - Self.step(width)), .late)
      }
    trial = nil
    settledAt = now.saturatingAdd(length / 2)
    cap = to
    return Change(from: limit, to: to, reason: reason, app: late.app)
  }

  /// Additive, where each target has room, and all that background may have was in use.
  private mutating func raise(
    _ readings: [Reading], _ limit: Int, _ width: Int, _ length: UInt64, _ now: UInt64
  ) -> Change? {
    guard limit < width else { return nil }
    var isAsked = false
    for reading in readings {
      guard let last = windows[reading.app]?.last, last.most >= limit else { return nil }
      switch last.verdict {
      case .room: isAsked = true
      case .noRequests: break
      case .late, .lateByLittle, .close: return nil
      }
    }
    var step = Self.step(width)
    if isAsked, let miss {
      // Once it is there, what was missed before has to last for a while.
      if limit >= miss.limit { return nil }
      step = min(step, now < miss.until ? (miss.limit - limit) / 2 : miss.limit - limit)
      guard step > 0 else { return nil }
    }
    let to = min(width, limit + step)
    if isAsked {
      trial = Trial(from: limit, until: now.saturatingAdd(2 * Self.pause * length))
    } else {
      (miss, trial) = (nil, nil)
    }
    hasToldOutOfReach = false
    windows = [:]
    cap = to < width ? to : nil
    return Change(from: limit, to: to, reason: isAsked ? .room : .noRequests, app: nil)
  }
}
