import OpportuneBase

/// What clients ask and when, before a window. Times in microseconds, unless they say otherwise.
struct ServePlan: Sendable {
  enum Load: String, Sendable, CaseIterable, Codable {
    /// Typists alone; heavy requests once they have stopped.
    case idle
    /// Beside indexing, merging and checking, with a heavy request a second.
    case full
  }

  /// Connections of typists, unless asked otherwise.
  static let typists = 32

  /// Connections of typists.
  var clients: Int
  /// Between two questions of a typist: the more there are, the longer, so that as much is asked in all.
  var keystroke: (mean: Double, jitter: Double)
  /// So many questions of a typist are short, and the next is a phrase.
  var shortBetweenPhrases = 39
  /// Microseconds for each heavy request, of which so many come at once: the more, the longer apart.
  var heavyEvery = 1_000_000.0
  var heavyAtOnce: Int
  var freshEvery = 500_000.0
  /// Heavy requests on an idle machine, one after the other behind the typists: half as many as under full
  /// load, so that a run of five windows of 24 s has percentiles of them.
  var heavyWhenIdle: Int
  var load: Load
  var duration: Nanoseconds
  /// The same for all contenders of a repeat.
  var seed: UInt64

  init(
    load: Load, duration: Nanoseconds, seed: UInt64, connections: Int = typists, heavyAtOnce: Int = 1
  ) {
    clients = connections
    let share = Double(connections) / Double(Self.typists)
    keystroke = (mean: 40_000 * share, jitter: 20_000 * share)
    self.heavyAtOnce = heavyAtOnce
    self.load = load
    self.duration = duration
    heavyWhenIdle = max(3, Int(Double(duration) / 1000 / heavyEvery / 2))
    self.seed = seed
  }

  /// One connection's questions.
  struct Stream: Sendable {
    let connection: Int
    var schedule: ArrivalSchedule
    let kind: @Sendable (_ arrival: Int) -> ServeRequest.Kind
    /// Nanoseconds after the window's begin, of the last question.
    let end: Nanoseconds
    var arrivals = 0
  }

  /// Connections of heavy requests, in turns: one that takes long does not keep the next from being sent.
  var heavyConnections: Int { 4 * heavyAtOnce }
  var connections: Int { clients + heavyConnections + 1 }

  /// What the window begins with that is not measured.
  var warmUp: Nanoseconds { min(duration / 5, 1_000_000_000) }

  func streams() -> [Stream] {
    let between = shortBetweenPhrases + 1
    var streams = (0..<clients).map { client in
      Stream(
        connection: client,
        schedule: ArrivalSchedule(
          mean: keystroke.mean, jitter: keystroke.jitter, seed: seed &+ UInt64(client)),
        kind: { ($0 + client) % between == between - 1 ? .phrase : .short }, end: duration)
    }
    guard load == .full else { return streams }
    // Those that come together come so seldom that the first are to be measured.
    let firstHeavy = heavyAtOnce > 1 ? Double(warmUp) / 1000 : 0
    for index in 0..<heavyConnections {
      streams.append(
        Stream(
          connection: clients + index,
          schedule: ArrivalSchedule(
            every: heavyEvery * Double(heavyConnections),
            first: firstHeavy + heavyEvery * (Double(index / heavyAtOnce * heavyAtOnce) + 0.3)),
          kind: { _ in .heavy }, end: duration))
    }
    streams.append(
      Stream(
        connection: clients + heavyConnections,
        schedule: ArrivalSchedule(mean: freshEvery, jitter: freshEvery / 2, seed: seed &+ 1000),
        kind: { _ in .fresh }, end: duration))
    return streams
  }
}
