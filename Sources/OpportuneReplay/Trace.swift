import OpportuneApps

/// What happened to the apps of a device, as far as its recording says.
package struct Trace: Sendable, Hashable {
  /// What was done, never what came of it: the inputs of a replay.
  package enum Input: Sendable, Hashable {
    /// The user brought it to the front.
    case front(String)
    /// It went from the front.
    case left(String)
    /// Its process started, not in front.
    case started(String)
    /// It held a reason to run in background, from begin to end.
    case assertion(String, Int64, begins: Bool)
    case notification(String)
    case footprint(String, UInt64)
    case power(PowerSupply)
    /// The device went off: nothing runs.
    case shutdown
  }

  /// What the device itself says that an app's state was; compared, never used.
  package struct Expectation: Sendable, Hashable {
    package var at: Double
    package var app: String
    package var state: LifecycleState.Operational
  }

  /// Sums over an hour or a day, where nothing finer was recorded.
  package struct UsageSum: Sendable, Hashable {
    package var at: Double
    package var app: String
    package var seconds: Double
  }

  package var format: String
  /// Seconds since 1970, in order.
  package var inputs: [(at: Double, input: Input)] = []
  package var expectations: [Expectation] = []
  package var sums: [UsageSum] = []

  package init(format: String) { self.format = format }

  package static func == (left: Trace, right: Trace) -> Bool {
    left.format == right.format && left.expectations == right.expectations && left.sums == right.sums
      && left.inputs.map(\.at) == right.inputs.map(\.at) && left.inputs.map(\.input) == right.inputs.map(\.input)
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(format)
    hasher.combine(inputs.count)
  }

  /// The bytes of each app of which any are recorded, in time.
  var sizes: [String: [UInt64]] {
    inputs.reduce(into: [:]) { sizes, row in
      if case .footprint(let app, let bytes) = row.input { sizes[app, default: []].append(bytes) }
    }
  }

  /// In time; what happened at once stays in the order of its source.
  mutating func sort() {
    inputs = inputs.enumerated().sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }.map(\.element)
    expectations = expectations.enumerated().sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }.map(
      \.element)
  }
}

extension Trace.Input {
  /// The app that this lets run.
  var runs: String? {
    switch self {
    case .front(let app), .started(let app), .notification(let app), .assertion(let app, _, begins: true): app
    case .left, .assertion, .footprint, .power, .shutdown: nil
    }
  }
}
