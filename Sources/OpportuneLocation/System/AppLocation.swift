import OpportuneApps

/// What the location system knows of an app.
struct AppLocation: Sendable, Hashable {
  var manifest: Manifest
  var appClass: AppClass
  var state = LifecycleState.notRunning
  var status = AuthorizationStatus.notDetermined
  /// The types that this installation was asked for and that were answered. (R-AUTH-08)
  var answered: Set<AuthorizationType> = []
  var isInvokedByVoice = false
  /// What the user says a significant change is.
  var significantDistance: Double?
  /// Since when it gets locations out of use; and whether the user was reminded of that.
  var outOfUseSince: Moment?
  var wasReminded = false
  /// Its requests, in their order.
  var requests: [RequestID] = []
  var tracks = 0
  /// The accuracies of its fences, in metres, and how many have each.
  var fences: [Double: Int] = [:]
  // What was told last.
  var indicator = LocationIndicator.none
  var hasBanner = false
  var isHeld = false

  var finestFence: Double { fences.keys.min() ?? .infinity }
}

/// A dialog that is open.
struct OpenDialog: Sendable, Hashable {
  var app: AppID
  var kind: LocationDialog.Kind
  var type: AuthorizationType
  var ends: Moment?
}

/// A crossing on its way through the application manager. (R-AUTH-14)
struct Flow: Sendable, Hashable {
  enum Stage: Sendable, Hashable {
    case askingBefore(QueryID)
    case alerting
    case askingAfter(QueryID)
    /// It waits for the app to be in front.
    case opening
  }

  var app: AppID
  var request: RequestID
  var crossing: Crossing
  var stage: Stage
}
