import OpportuneApps
internal import OpportuneBase

/// A client of gpsd as a value: what came and when goes in, what is to be done comes out. ``GPSDClient`` carries it out.
///
/// It outlives gpsd: a connection that ends, is refused, says nothing, or speaks no protocol is made again, later each
/// time. A line that makes no sense is left out and counted.
public struct GPSDSession: Sendable {
  public struct Options: Sendable, Hashable {
    /// Without a line for so long the connection counts as dead; gpsd reports once a second. 1 s to a day.
    public var silence: Duration = .seconds(30)
    /// Without a fix for so long there is none to be had; 1 s to a day.
    public var patience: Duration = .seconds(5)
    /// Before the first new attempt; doubled with each that fails. 10 ms to a day.
    public var retry: Duration = .seconds(1)
    /// The longest time between two attempts. At least `retry`, at most a day.
    public var retryMax: Duration = .seconds(60)
    /// Standard deviation in metres, where gpsd says no accuracy; 0.1 to 10,000.
    public var deviation = 5.0

    public init() {}

    /// - Throws: ``LocationError/outOfRange(_:_:)``.
    public func validate() throws(LocationError) {
      try check(silence.inSeconds, "silence in seconds", within: 1...86_400)
      try check(patience.inSeconds, "patience in seconds", within: 1...86_400)
      try check(retry.inSeconds, "retry in seconds", within: 0.01...86_400)
      try check(retryMax.inSeconds, "retryMax in seconds", within: retry.inSeconds...86_400)
      try check(deviation, "deviation in metres", within: 0.1...10_000)
    }
  }

  public enum Event: Sendable, Hashable {
    case connected
    case received([UInt8])
    /// The connection ended, or could not be made.
    case ended
    /// The session's deadline has come.
    case elapsed
  }

  public enum Effect: Sendable, Hashable {
    case connect
    case send([UInt8])
    case close
    case update(SourceUpdate)
  }

  private enum State: Sendable {
    case waiting(until: Moment)
    case connecting
    case connected
  }

  /// Asks for reports as JSON, until the connection ends.
  public static let watch = Array("?WATCH={\"enable\":true,\"json\":true};\n".utf8)
  /// Longer lines than gpsd ever sends (10,240 bytes) are no protocol.
  public static let lineMax = 16 << 10

  /// What the session was made with.
  public let options: Options
  /// Lines that made no sense.
  public private(set) var garbage = 0
  private var state: State
  private var line: [UInt8] = []
  private var delay: Duration
  private var heard = Moment.zero
  /// When there is no fix to be had, unless one comes.
  private var patienceEnds = Moment.distantFuture
  private var isAvailable: Bool?

  /// - Throws: ``LocationError/outOfRange(_:_:)``.
  public init(_ options: Options = Options(), at moment: Moment) throws(LocationError) {
    try options.validate()
    self.options = options
    delay = options.retry
    state = .waiting(until: moment)
  }

  /// When ``Event/elapsed`` is due.
  public var deadline: Moment {
    switch state {
    case .waiting(let until): until
    // Connecting has a limit of its own, the silence.
    case .connecting: heard + options.silence
    case .connected: min(heard + options.silence, patienceEnds)
    }
  }

  public mutating func handle(_ event: Event, at moment: Moment) -> [Effect] {
    switch event {
    case .connected:
      state = .connected
      heard = moment
      patienceEnds = moment + options.patience
      return [.send(Self.watch)]
    case .received(let bytes): return received(bytes, at: moment)
    case .ended: return lost(at: moment)
    case .elapsed: return elapsed(at: moment)
    }
  }

  private mutating func received(_ bytes: [UInt8], at moment: Moment) -> [Effect] {
    guard case .connected = state else { return [] }
    heard = moment
    var effects: [Effect] = []
    for byte in bytes {
      guard byte == UInt8(ascii: "\n") else {
        line.append(byte)
        if line.count > Self.lineMax {
          garbage += 1
          return effects + [.close] + lost(at: moment)
        }
        continue
      }
      effects += report(at: moment)
      line.removeAll(keepingCapacity: true)
    }
    return effects
  }

  private mutating func report(at moment: Moment) -> [Effect] {
    if line.last == UInt8(ascii: "\r") { line.removeLast() }
    guard !line.isEmpty else { return [] }
    let report = GPSDReport(line, at: moment, deviation: options.deviation)
    if report == .garbage { garbage += 1 } else { delay = options.retry }
    guard case .fix(let fix) = report else { return [] }
    patienceEnds = moment + options.patience
    return available(true) + [.update(.fix(fix))]
  }

  private mutating func elapsed(at moment: Moment) -> [Effect] {
    guard moment >= deadline else { return [] }
    switch state {
    case .waiting:
      state = .connecting
      heard = moment
      return [.connect]
    case .connecting: return [.close] + lost(at: moment)
    case .connected:
      if moment >= heard + options.silence { return [.close] + lost(at: moment) }
      patienceEnds = .distantFuture
      return available(false)
    }
  }

  private mutating func lost(at moment: Moment) -> [Effect] {
    state = .waiting(until: moment + delay)
    delay = min(delay * 2, options.retryMax)
    line = []
    return available(false)
  }

  private mutating func available(_ now: Bool) -> [Effect] {
    guard isAvailable != now else { return [] }
    isAvailable = now
    return [.update(.available(now))]
  }
}
