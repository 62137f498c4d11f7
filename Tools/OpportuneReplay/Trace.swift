import OpportuneApps

/// The events of a device's apps, as far as they were recorded.
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

    package init(at: Double, app: String, state: LifecycleState.Operational) {
      self.at = at
      self.app = app
      self.state = state
    }
  }

  /// Sums over an hour or a day, where nothing finer was recorded.
  package struct UsageSum: Sendable, Hashable {
    package var at: Double
    package var app: String
    package var seconds: Double
    /// Seconds from ``at`` on that it is the sum over.
    package var length = 3600.0
  }

  package var format: String
  /// Seconds since 1970, in order.
  package var inputs: [(at: Double, input: Input)] = []
  package var expectations: [Expectation] = []
  package var sums: [UsageSum] = []
  /// For people: how it was read, where that was not as usual.
  package var notes: [String] = []

  package init(format: String) { self.format = format }

  package static func == (left: Trace, right: Trace) -> Bool {
    left.format == right.format && left.expectations == right.expectations && left.sums == right.sums
      && left.notes == right.notes && left.inputs.map(\.at) == right.inputs.map(\.at)
      && left.inputs.map(\.input) == right.inputs.map(\.input)
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

  /// Where nothing at all is recorded for longer than `limit` seconds, whoever was in front is taken to have
  /// left with the last that is: a day of which the recording says nothing is no day of use.
  package mutating func endSilences(longerThan limit: Double = 43_200) {
    var front: String?
    var last = Double.infinity
    var ends: [(at: Double, input: Input)] = []
    var silence = 0.0
    func pass(_ at: Double) {
      if let app = front, at - last > limit {
        ends.append((last, .left(app)))
        silence += at - last
        front = nil
      }
      last = at
    }
    var states = expectations[...]
    for (at, input) in inputs {
      while let state = states.first, state.at <= at {
        pass(state.at)
        states.removeFirst()
      }
      pass(at)
      switch input {
      case .front(let app): front = app
      case .left(let app) where app == front: front = nil
      case .shutdown: front = nil
      case .left, .started, .assertion, .notification, .footprint, .power: break
      }
    }
    for state in states { pass(state.at) }
    guard !ends.isEmpty else { return }
    let gaps = ends.count == 1 ? "one gap" : "\(ends.count) gaps"
    notes.append(
      "nothing is recorded for \(hours(silence)), in \(gaps) of more than \(hours(limit)): who was in front is taken to have left"
    )
    inputs += ends
    sort()
  }

  /// In time; what happened at once stays in the order of its source.
  mutating func sort() {
    inputs = inputs.enumerated().sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }.map(
      \.element)
    expectations = expectations.enumerated().sorted {
      ($0.element.at, $0.offset) < ($1.element.at, $1.offset)
    }.map(
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
