import OpportuneScheduler
import Synchronization

/// The source of an app's state: the scheduler's app, or, for an app without a scheduler, a word that its
/// user sets. Safe on any thread.
final class AppStateSource: Sendable {
  /// nil for an app without a scheduler.
  let app: App?
  private let limits: (@Sendable () -> IOLimits?)?
  /// Used where `app` is nil: the state's code in the lowest byte, the number of changes above it.
  private let word: Atomic<UInt64>

  /// The state of an app without a scheduler.
  init(_ state: IOState) {
    app = nil
    limits = nil
    word = Atomic(UInt64(state.code))
  }

  /// - Parameter limits: called on any thread; must not block.
  init(_ app: App, _ limits: (@Sendable () -> IOLimits?)?) {
    self.app = app
    self.limits = limits
    word = Atomic(0)
  }

  /// A state, and a generation that differs after each change.
  struct View {
    let state: IOState
    let generation: UInt64
    let limits: IOLimits?

    fileprivate init(of app: App, _ limits: IOLimits?) {
      let (band, isSuspended, number) = app.moment
      state = isSuspended ? .suspended : band == .background ? .background : .active
      generation = number
      self.limits = limits
    }

    fileprivate init(word: UInt64) {
      state = IOState(code: UInt8(truncatingIfNeeded: word))
      generation = word >> 8
      limits = nil
    }

    func state(on device: Device) -> IOState {
      state == .suspended ? .suspended : limits?.state(on: device) ?? state
    }

    /// Whether requests that somebody of the foreground waits for go in the foreground's class: not where
    /// the host has put the app into the background's.
    func takesDonations(on device: Device) -> Bool {
      state != .suspended && limits.allowDonations(on: device)
    }
  }

  /// The current state. It is never a copy that could be out of date: see ``RequestPath/follow(_:)``.
  var view: View {
    // [state] acquire: pairs with set(). A thread that sees the change also sees what happened before it.
    if let app { View(of: app, limits?()) } else { View(word: word.load(ordering: .acquiring)) }
  }

  /// Sets the state of an app without a scheduler. Returns whether it has changed.
  func set(_ state: IOState) -> Bool {
    guard app == nil else { return false }
    var seen = word.load(ordering: .relaxed)
    while View(word: seen).state != state {
      let next = (seen >> 8 &+ 1) << 8 | UInt64(state.code)
      // [state] release: pairs with view.
      let (exchanged, original) = word.compareExchange(expected: seen, desired: next, ordering: .releasing)
      if exchanged { return true }
      seen = original
    }
    return false
  }
}

extension IOLimits? {
  func allowDonations(on device: Device) -> Bool { self?.state(on: device) != .background }
}

extension IOState {
  fileprivate var code: UInt8 {
    switch self {
    case .active: 0
    case .inactive: 1
    case .background: 2
    case .suspended: 3
    }
  }

  fileprivate init(code: UInt8) {
    self =
      switch code {
      case 0: .active
      case 1: .inactive
      case 2: .background
      default: .suspended
      }
  }
}
