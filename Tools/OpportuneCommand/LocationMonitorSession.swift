import Foundation
import Opportune
import OpportuneLocation

/// The session of `opportune location monitor`: its fences, its settings and the user, independent of the
/// source of fixes.
struct LocationMonitorSession {
  enum News: Equatable {
    case crossing(Crossing, fence: String)
    /// For people.
    case note(String)
    /// For the user interface, or for it to take away.
    case question(LocationEffect)
  }

  private(set) var fences: PermittedFences
  private var settings: LocationSettingsFile?
  private var isAnswering = false

  /// - Parameter settings: `nil`: who runs the command lets the reader know.
  init(_ fences: PermittedFences, settings: LocationSettingsFile?) {
    self.fences = fences
    self.settings = settings
  }

  /// - Throws: for settings that cannot be read or written; those that go bad later allow nothing until they
  ///   are mended.
  mutating func start() throws -> [News] {
    guard let store = settings else {
      var all = LocationSettings()
      all.apps[fences.identifier] = .allowed(.always)
      return try carryOut(try fences.apply(all, at: .zero))
    }
    // The app is in the settings from its first use on. (R-AUTH-05)
    let app = fences.identifier
    try store.update { $0.apps[app] = $0.apps[app] ?? .notDetermined }
    var news = try readSettings(at: .zero)
    if !fences.mayMonitor { news.append(.note(waiting)) }
    return news
  }

  /// Looks at the settings first: what was taken back a moment ago is not told any more. (R-AUTH-12)
  mutating func handle(_ event: LocationEvent, at moment: Moment) throws -> [News] {
    let news = try readSettings(at: moment)
    if case .answer = event { isAnswering = true }
    defer { isAnswering = false }
    do {
      return try news + carryOut(try fences.handle(event, at: moment))
    } catch let error as LocationSystemError {
      switch error.code {
      // The settings, or what came of them, have taken the question away.
      case .unknownPrompt, .unknownAlert: return news
      case .location, .unknownApp, .unknownRequest, .unknownQuery: throw error
      }
    }
  }

  private mutating func readSettings(at moment: Moment) throws -> [News] {
    var wrong: [News] = []
    let chosen: LocationSettings?
    do { chosen = try settings?.readIfChanged() } catch {
      var nothing = LocationSettings()
      nothing.isEnabled = false
      nothing.apps[fences.identifier] = fences.status
      chosen = nothing
      wrong = [.note("\(error); no crossing is told until that is mended")]
    }
    guard let chosen else { return [] }
    return try wrong + carryOut(try fences.apply(chosen, at: moment))
  }

  private mutating func carryOut(_ effects: [LocationEffect]) throws -> [News] {
    var news: [News] = []
    for effect in effects {
      switch effect {
      case .deliver(_, .crossing(let request, let crossing)):
        news.append(.crossing(crossing, fence: fences.name(of: request)))
      case .authorization(_, let status) where settings != nil:
        news.append(.note("\(fences.identifier): \(status.word)"))
        if let problem = keep(status) { news.append(.note(problem)) }
      case .ask, .dismiss, .alert, .withdraw, .indicator: news.append(.question(effect))
      default: continue
      }
    }
    return news
  }

  /// What was answered to a question holds for the next run too; what the settings said is there already.
  ///
  /// - Returns: why it could not be kept.
  private func keep(_ status: AuthorizationStatus) -> String? {
    guard isAnswering else { return nil }
    do { try settings?.update { $0.apps[fences.identifier] = status } } catch { return "\(error); not kept" }
    return nil
  }

  private var waiting: String {
    let action = fences.system.isEnabled ? "set \(shellWord(fences.identifier)) always" : "on"
    let command = "opportune location settings \(shellWord(settings?.path ?? "")) \(action)"
    return "\(fences.identifier) may not have locations; waiting for: \(command)"
  }
}
