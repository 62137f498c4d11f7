import OpportuneApps
internal import OpportuneBase

/// A client of gpsd as a value: what came and when goes in, what is to be done comes out. ``GPSDClient``
/// carries it out.
///
/// It outlives gpsd: a connection that ends, is refused, says nothing, or speaks no protocol is made again,
/// later each time. A line that makes no sense is left out and counted.
package struct GPSDSession: Sendable {
  package enum Event: Sendable, Hashable {
    case connected
    case received([UInt8])
    /// The connection ended, or could not be made.
    case ended
    /// The session's deadline has come.
    case elapsed
  }

  package enum Effect: Sendable, Hashable {
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
  package static let watch = Array("?WATCH={\"enable\":true,\"json\":true};\n".utf8)
  /// Longer lines than gpsd ever sends (10,240 bytes) are no protocol.
  package static let lineMax = 16 << 10

  /// What the session was made with.
  package let options: GPSDClient.Options
  /// Lines that made no sense.
  package private(set) var garbage = 0
  private var state: State
  private var line: [UInt8] = []
  private var delay: Duration
  private var heard = Moment.zero
  /// When there is no fix to be had, unless one comes.
  private var patienceEnds = Moment.distantFuture
  private var isAvailable: Bool?

  /// - Throws: ``LocationError``: `outOfRange`.
  package init(_ options: GPSDClient.Options = GPSDClient.Options(), at moment: Moment) throws(LocationError)
  {
    try options.validate()
    self.options = options
    delay = options.retry
    state = .waiting(until: moment)
  }

  /// When ``Event/elapsed`` is due.
  package var deadline: Moment {
    switch state {
    case .waiting(let until): until
    // Connecting has a limit of its own, the silence.
    case .connecting: heard + options.silence
    case .connected: min(heard + options.silence, patienceEnds)
    }
  }

  package mutating func handle(_ event: Event, at moment: Moment) -> [Effect] {
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
