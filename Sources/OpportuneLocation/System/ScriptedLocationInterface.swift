import Synchronization

/// A ``LocationUserInterface`` that answers by a script and keeps what it was to show: for tests, of hosts as
/// well.
///
/// What the script says nothing of is not answered: a dialog has failed, an alert is left, a banner stays
/// until it is taken away. Safe to use from any thread.
package final class ScriptedLocationInterface: LocationUserInterface {
  /// What it was to show, with the app's identifier.
  package enum Shown: Sendable, Hashable {
    case dialog(LocationDialog)
    case alert(LocationAlert)
    case indicator(LocationIndicator, app: String)
    case banner(app: String)
    /// The banner was taken away before it was selected.
    case noBanner(app: String)
  }

  private struct State {
    var dialogs: ArraySlice<DialogAnswer>
    var alerts: ArraySlice<AlertAnswer>
    var returns: Int
    var shown: [Shown] = []
  }

  private let state: Mutex<State>

  /// - Parameters:
  ///   - dialogs: the answers to dialogs and reminders, in the order in which they come.
  ///   - alerts: those to alerts.
  ///   - returns: how many banners are selected at once.
  package init(dialogs: [DialogAnswer] = [], alerts: [AlertAnswer] = [], returns: Int = 0) {
    state = Mutex(State(dialogs: dialogs[...], alerts: alerts[...], returns: returns))
  }

  /// In the order in which it came.
  package var shown: [Shown] { state.withLock { $0.shown } }

  package func ask(_ dialog: LocationDialog) async -> DialogAnswer {
    state.withLock { state in
      state.shown.append(.dialog(dialog))
      return state.dialogs.popFirst() ?? .failed
    }
  }

  package func alert(_ alert: LocationAlert) async -> AlertAnswer? {
    state.withLock { state in
      state.shown.append(.alert(alert))
      return state.alerts.popFirst()
    }
  }

  package func show(_ indicator: LocationIndicator, app: String) async {
    state.withLock { $0.shown.append(.indicator(indicator, app: app)) }
  }

  package func offerReturn(to app: String) async -> Bool {
    let isSelected = state.withLock { state in
      state.shown.append(.banner(app: app))
      guard state.returns > 0 else { return false }
      state.returns -= 1
      return true
    }
    if isSelected { return true }
    // Until the task is cancelled: nothing ever comes.
    let (nothing, end) = AsyncStream.makeStream(of: Void.self)
    for await _ in nothing {}
    end.finish()
    state.withLock { $0.shown.append(.noBanner(app: app)) }
    return false
  }
}
