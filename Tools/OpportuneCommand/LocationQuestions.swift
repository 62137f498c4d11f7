import OpportuneLocation
import Synchronization

/// The input of `opportune location monitor`.
enum LocationMonitorEvent {
  case source(SourceUpdate)
  /// A dialog or an alert ended.
  case answered(LocationEvent)
  /// What was told did not reach its reader.
  case notTold(OutputFailure)
}

/// The questions that a user interface shows for a location system, each in a task that ends with it.
final class LocationQuestions: Sendable {
  private struct Open {
    var dialogs: [LocationPromptID: Task<Void, Never>] = [:]
    var alerts: [AlertID: Task<Void, Never>] = [:]
    var indicator: Task<Void, Never>?
  }

  private let interface: any LocationUserInterface
  private let app: String
  private let answers: AsyncStream<LocationMonitorEvent>.Continuation
  private let open = Mutex(Open())

  init(
    _ interface: any LocationUserInterface, app: String,
    answers: AsyncStream<LocationMonitorEvent>.Continuation
  ) {
    self.interface = interface
    self.app = app
    self.answers = answers
  }

  /// Does what concerns the user; the answers come as events.
  func show(_ effect: LocationEffect) {
    let (interface, app, answers) = (interface, app, answers)
    open.withLock { open in
      switch effect {
      case .ask(let prompt, _, let dialog):
        open.dialogs[prompt] = Task {
          answers.yield(.answered(.answer(prompt, await interface.ask(dialog))))
          self.open.withLock { _ = $0.dialogs.removeValue(forKey: prompt) }
        }
      case .alert(let alert, _, let text):
        open.alerts[alert] = Task {
          // Nobody said that the app may know.
          answers.yield(.answered(.alert(alert, await interface.alert(text) ?? .close)))
          self.open.withLock { _ = $0.alerts.removeValue(forKey: alert) }
        }
      case .dismiss(let prompt): open.dialogs.removeValue(forKey: prompt)?.cancel()
      case .withdraw(let alert): open.alerts.removeValue(forKey: alert)?.cancel()
      case .indicator(_, let indicator):
        // In their order: the last one stays.
        open.indicator = Task { [before = open.indicator] in
          await before?.value
          await interface.show(indicator, app: app)
        }
      default: break
      }
    }
  }
}

/// Where no user is there: nothing is answered, and standard error says what for.
struct NobodyToAsk: LocationUserInterface {
  func ask(_ dialog: LocationDialog) async -> DialogAnswer {
    printToStandardError("nobody is there to ask: \(dialog.systemText)")
    return .failed
  }

  func alert(_ alert: LocationAlert) async -> AlertAnswer? {
    printToStandardError("\(alert.app) is not in use, and is not told of a crossing")
    return nil
  }

  func show(_ indicator: LocationIndicator, app: String) async {}

  func offerReturn(to app: String) async -> Bool { false }
}
