import OpportuneApps

/// What an app does, or what happens to it, as far as locations go.
public enum AppLocationEvent: Sendable, Hashable {
  /// Its state, as the lifecycle has it.
  case moved(LifecycleState)
  /// It asks for a type of authorization; `nil`: the policy's. (R-AUTH-06)
  case requestAuthorization(AuthorizationType?)
  case start(LocationRequest)
  /// Several at once, which costs a fraction of one by one. Each is started or refused, in their order; none is where one is out of
  /// its ranges or there is no place for all fences.
  case startAll([LocationRequest])
  case stop(RequestID)
  /// The user invoked it by voice, or that is over. (R-AUTH-03)
  case voice(Bool)
  /// The user chose in the settings pane. (R-AUTH-10)
  case setAuthorization(AuthorizationStatus)
  /// The user said what a significant change is; `nil`: as the app says. (R-LOC-02)
  case setSignificantDistance(Double?)
  /// It was installed anew: nothing is allowed and nothing was asked. (R-AUTH-08)
  case reinstalled
}

/// How a dialog ended.
public enum DialogAnswer: String, Sendable, Hashable, CaseIterable, Codable {
  case allow, deny
  /// It could not be shown, or went away without an answer. That is no answer.
  case failed
}

/// How an alert ended. (R-AUTH-20)
public enum AlertAnswer: String, Sendable, Hashable, CaseIterable, Codable { case close, open }

/// What happens to a location system.
public enum LocationEvent: Sendable, Hashable {
  case app(AppID, AppLocationEvent)
  /// A source that runs has found the device.
  case fix(Fix)
  /// The cell that serves the device. (R-LOC-11)
  case cell(UInt64)
  case available(SourceKind, Bool)
  /// The user switches all location services on or off.
  case enabled(Bool)
  case answer(LocationPromptID, DialogAnswer)
  case alert(AlertID, AlertAnswer)
  /// A query of the application manager has come to the location subsystem.
  case query(QueryID)
  /// The answer has come back to the application manager.
  case reply(QueryID, permitted: Bool)
}

/// A dialog about an app's authorization.
public struct LocationPromptID: Sendable, Hashable, CustomStringConvertible {
  public let number: UInt32
  public var description: String { "location prompt \(number)" }
}

/// A crossing on its way to an app by way of the user.
public struct AlertID: Sendable, Hashable, CustomStringConvertible {
  public let number: UInt32
  public var description: String { "alert \(number)" }
}

/// A question of the application manager whether an app may still know of a crossing.
public struct QueryID: Sendable, Hashable, CustomStringConvertible {
  public let number: UInt32
  public var description: String { "query \(number)" }
}

/// What a dialog says. Its buttons are Don't Allow and Allow, of a reminder Don't Allow and Continue. (R-AUTH-07)
public struct LocationDialog: Sendable, Hashable {
  public enum Kind: String, Sendable, Hashable, CaseIterable, Codable { case authorization, reminder }
  public let kind: Kind
  public let type: AuthorizationType
  /// The system's text, with the name of the app.
  public let systemText: String
  /// The app's own.
  public let appText: String
}

/// What a user is alerted with; the buttons are Close and Open. (R-AUTH-19)
public struct LocationAlert: Sendable, Hashable {
  /// The app's identifier.
  public let app: String
  /// The app's text.
  public let text: String
  /// The system's, which says what opening does.
  public let systemText: String
}

/// What shows that an app gets locations. (R-AUTH-22)
public enum LocationIndicator: String, Sendable, Hashable, CaseIterable, Codable {
  case none
  /// It waits for crossings only.
  case hollow
  case solid
}

/// What a location system asks of its host, or tells it.
public enum LocationEffect: Sendable, Hashable {
  case started(AppID, RequestID)
  case refused(AppID, LocationRefusal)
  case ended(AppID, RequestID, RequestEnd)
  /// This source runs from now on, and no other; `nil`: none.
  case source(SourceKind?)
  /// For the app itself. The only way in which a location leaves the system.
  case deliver(AppID, LocationNotice)
  /// For ``AppSystem``: it is reanimated, opened, or held by tracking.
  case app(AppID, AppEvent)
  case ask(LocationPromptID, AppID, LocationDialog)
  /// The dialog is taken away.
  case dismiss(LocationPromptID)
  case alert(AlertID, AppID, LocationAlert)
  case withdraw(AlertID)
  /// The application manager asks the location subsystem; only where that is asynchronous.
  case query(QueryID, AppID)
  /// The location subsystem answers.
  case reply(QueryID, permitted: Bool)
  case authorization(AppID, AuthorizationStatus)
  case indicator(AppID, LocationIndicator)
  /// The operating mode that the device's place chooses from now on; `nil`: none. (R-SYS-05)
  case mode(String?)
  /// The banner by which the user comes back to an app. (R-AUTH-23)
  case banner(AppID, isShown: Bool)
}

/// Why an event was refused; nothing was changed by it. No case holds a location.
public enum LocationSystemError: Error, Sendable, Hashable, CustomStringConvertible {
  case location(LocationError)
  case unknownApp(AppID)
  case unknownRequest(AppID, RequestID)
  case unknownPrompt(LocationPromptID)
  case unknownAlert(AlertID)
  case unknownQuery(QueryID)

  public var description: String {
    switch self {
    case .location(let error): "\(error)"
    case .unknownApp(let app): "\(app) is not registered for locations"
    case .unknownRequest(let app, let request): "\(app) has no \(request)"
    case .unknownPrompt(let prompt): "\(prompt) is not open"
    case .unknownAlert(let alert): "\(alert) is not open"
    case .unknownQuery(let query): "\(query) is not open"
    }
  }
}
