import OpportuneApps

/// A request of an app for locations. Numbers only grow.
public struct RequestID: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// In the order of the requests.
  public let number: UInt32

  public static func < (left: RequestID, right: RequestID) -> Bool { left.number < right.number }
  public var description: String { "location request \(number)" }
}

/// What an app asks for. Accuracies are metres, 0.01 to 10^6. (R-LOC-09, R-LOC-10)
public enum LocationRequest: Sendable, Hashable {
  /// Each fix, or each that is so many metres from the one delivered before. It ends when the app is
  /// suspended and never restarts it. (R-LOC-09)
  case standard(accuracy: Double, filter: Double = 0)
  /// Each fix, in foreground and background; keeps the app in background. Needs the mode in the manifest.
  /// (R-LOC-03)
  case tracking(accuracy: Double)
  /// A fix each time the device has moved so far, or changed its cell; `nil`: as far as the user or the
  /// policy says. It reanimates the app. (R-LOC-02, R-LOC-11)
  case significantChange(distance: Double? = nil)
  /// The crossings of a fence; reanimates the app. The text is for the alert. (R-GEO-08, R-AUTH-19)
  case region(Fence, accuracy: Double = 100, text: CrossingText = "")

  /// The service that it uses.
  public var service: LocationService {
    switch self {
    case .standard, .tracking: .updates
    case .significantChange: .significantChange
    case .region: .regions
    }
  }

  func validate() throws(LocationError) {
    switch self {
    case .standard(let accuracy, let filter):
      try check(accuracy, "accuracy in metres", within: 0.01...1e6)
      try check(filter, "distance filter in metres", within: 0...1e7)
    case .tracking(let accuracy), .region(_, let accuracy, _):
      try check(accuracy, "accuracy in metres", within: 0.01...1e6)
    case .significantChange(let distance):
      if let distance { try check(distance, "significant distance in metres", within: 1...1e7) }
    }
  }
}

/// What an app says in the alert of a crossing. A literal says the same of each. (R-AUTH-19)
public struct CrossingText: Sendable, Hashable, ExpressibleByStringLiteral {
  /// Of an entry, and of a stay.
  public var entering: String
  /// What the user reads at an exit.
  public var leaving: String

  /// A text for each way.
  public init(entering: String, leaving: String) { (self.entering, self.leaving) = (entering, leaving) }
  public init(stringLiteral text: String) { self.init(entering: text, leaving: text) }

  func text(of kind: Crossing.Kind) -> String {
    switch kind {
    case .enter, .dwell: entering
    case .exit, .expired: leaving
    }
  }
}

/// What types of authorization distinguish.
public enum LocationService: String, Sendable, Hashable, CaseIterable, Codable {
  /// Locations as the device moves.
  case updates
  /// Locations after a significant move.
  case significantChange
  /// Crossings of fences.
  case regions
}

/// Why a request was not accepted.
public enum LocationRefusal: Sendable, Hashable {
  /// The user switched all of it off.
  case disabled
  /// The app has no permission for it, or not while it is not in use.
  case notAuthorized
  /// The app's manifest lacks the key that the type needs. (R-AUTH-06)
  case missingKey(String)
  /// The app's manifest lacks the mode. (R-LOC-10)
  case missingMode
  /// It asks for what only an app that executes can get.
  case notExecuting
  /// A question to the user about this app is open.
  case alreadyAsked
}

/// Why a request ended by itself.
public enum RequestEnd: String, Sendable, Hashable, CaseIterable, Codable {
  /// The app was suspended, or ended. (R-LOC-10)
  case suspended
  /// The fence has expired.
  case expired
  /// The app was installed anew.
  case reinstalled
}

/// What an app is told. Printing it tells no location.
public enum LocationNotice: Sendable, Hashable {
  /// A fix, and the one that was delivered before. (R-LOC-09)
  case update(RequestID, old: Fix?, new: Fix)
  /// The device has moved significantly.
  case significantChange(RequestID, Fix)
  /// (R-GEO-10)
  case crossing(RequestID, Crossing)
  /// A fence cannot be watched for now. What is missed meanwhile comes out when it can be again. (R-GEO-10)
  case monitoringFailed(RequestID, MonitoringFailure)
}

/// Why no fence can be watched.
public enum MonitoringFailure: String, Sendable, Hashable, CaseIterable, Codable {
  /// No source is there.
  case noSource
  /// The user switched all of it off.
  case disabled
}
