import OpportuneApps

/// What an app does, or what happens to it, as far as locations go.
public enum AppLocationEvent: Sendable, Hashable {
  /// Its state, as the lifecycle has it.
  case moved(LifecycleState)
  /// It asks for a type of authorization; `nil`: the policy's. (R-AUTH-06)
  case requestAuthorization(AuthorizationType?)
  /// It asks for locations or crossings.
  case start(LocationRequest)
  /// Several at once, which costs a fraction of one by one. Each is started or refused, in their order; none
  /// is where one is out of its ranges or there is no place for all fences.
  case startAll([LocationRequest])
  /// It wants no more of a request.
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
  /// The user allows it.
  case allow
  /// The user does not.
  case deny
  /// It could not be shown, or went away without an answer. That is no answer.
  case failed
}

/// How an alert ended. (R-AUTH-20)
public enum AlertAnswer: String, Sendable, Hashable, CaseIterable, Codable {
  /// The user has read it.
  case close
  /// The user opens the app.
  case open
}

/// What happens to a location system.
public enum LocationEvent: Sendable, Hashable {
  /// What an app does, or what happens to it.
  case app(AppID, AppLocationEvent)
  /// A source that runs has found the device.
  case fix(Fix)
  /// The cell that serves the device. (R-LOC-11)
  case cell(UInt64)
  /// A source can be used from now on, or cannot.
  case available(SourceKind, Bool)
  /// The user switches all location services on or off.
  case enabled(Bool)
  /// A dialog has ended.
  case answer(LocationPromptID, DialogAnswer)
  /// An alert has ended.
  case alert(AlertID, AlertAnswer)
  /// A query of the application manager has come to the location subsystem.
  case query(QueryID)
  /// The answer has come back to the application manager.
  case reply(QueryID, permitted: Bool)
}

/// A dialog about an app's authorization.
public struct LocationPromptID: Sendable, Hashable, CustomStringConvertible {
  /// In the order of the dialogs.
  public let number: UInt32
  public var description: String { "location prompt \(number)" }
}

/// A crossing on its way to an app by way of the user.
public struct AlertID: Sendable, Hashable, CustomStringConvertible {
  /// In the order of the alerts.
  public let number: UInt32
  public var description: String { "alert \(number)" }
}

/// A question of the application manager whether an app may still know of a crossing.
public struct QueryID: Sendable, Hashable, CustomStringConvertible {
  /// In the order of the queries.
  public let number: UInt32
  public var description: String { "query \(number)" }
}

/// What a dialog says. Its buttons are Don't Allow and Allow, of a reminder Don't Allow and Continue.
/// (R-AUTH-07)
public struct LocationDialog: Sendable, Hashable {
  /// What a dialog is for.
  public enum Kind: String, Sendable, Hashable, CaseIterable, Codable {
    /// Whether the app may have locations.
    case authorization
    /// Whether it may still.
    case reminder
  }
  /// What it is for.
  public let kind: Kind
  /// What the app asks for.
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
  /// It gets none.
  case none
  /// It waits for crossings only.
  case hollow
  /// It gets locations.
  case solid
}

/// What a location system asks of its host, or tells it.
public enum LocationEffect: Sendable, Hashable {
  /// A request was accepted.
  case started(AppID, RequestID)
  /// A request was not accepted, and why.
  case refused(AppID, LocationRefusal)
  /// A request has ended, and why.
  case ended(AppID, RequestID, RequestEnd)
  /// This source runs from now on, and no other; `nil`: none.
  case source(SourceKind?)
  /// For the app itself. The only way in which a location leaves the system.
  case deliver(AppID, LocationNotice)
  /// For the app's host: it is reanimated, opened, or held by tracking.
  case app(AppID, AppEvent)
  /// Show a dialog; its answer comes back as ``LocationEvent/answer(_:_:)``.
  case ask(LocationPromptID, AppID, LocationDialog)
  /// The dialog is taken away.
  case dismiss(LocationPromptID)
  /// Show an alert; its answer comes back as ``LocationEvent/alert(_:_:)``.
  case alert(AlertID, AppID, LocationAlert)
  /// The alert is taken away.
  case withdraw(AlertID)
  /// The application manager asks the location subsystem; only where that is asynchronous.
  case query(QueryID, AppID)
  /// The location subsystem answers.
  case reply(QueryID, permitted: Bool)
  /// What an app may have from now on.
  case authorization(AppID, AuthorizationStatus)
  /// The sign that an app has from now on.
  case indicator(AppID, LocationIndicator)
  /// The operating mode that the device's place chooses from now on; `nil`: none. (R-SYS-05)
  case mode(String?)
  /// The banner by which the user comes back to an app. (R-AUTH-23)
  case banner(AppID, isShown: Bool)
}

/// Why an event was refused; nothing was changed by it. No case holds a location.
public struct LocationSystemError: Error, Sendable, Hashable, CustomStringConvertible {
  /// What went wrong.
  public enum Code: Sendable, Hashable {
    /// A quantity, a region or a time was refused.
    case location(LocationError)
    /// The app is not registered for locations.
    case unknownApp(AppID)
    /// The app has no such request.
    case unknownRequest(AppID, RequestID)
    /// The dialog is not open.
    case unknownPrompt(LocationPromptID)
    /// The alert is not open.
    case unknownAlert(AlertID)
    /// The query is not open.
    case unknownQuery(QueryID)
  }

  /// What went wrong.
  public let code: Code

  package init(_ code: Code) { self.code = code }

  /// The same for people; never a place.
  public var message: String {
    switch code {
    case .location(let error): "\(error)"
    case .unknownApp(let app): "\(app) is not registered for locations"
    case .unknownRequest(let app, let request): "\(app) has no \(request)"
    case .unknownPrompt(let prompt): "\(prompt) is not open"
    case .unknownAlert(let alert): "\(alert) is not open"
    case .unknownQuery(let query): "\(query) is not open"
    }
  }

  public var description: String { message }
}
