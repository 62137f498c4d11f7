import ArgumentParser
import Foundation
import Opportune
import OpportuneBase
import OpportuneLocation
import OpportuneTraces
import Synchronization

struct LocationMonitorCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "monitor",
    abstract: "Watches fences in a process of its own, and prints each crossing as it happens.",
    discussion: """
      Fixes come from gpsd, or from a recorded track, as it was recorded. The program that reads the crossings may stop \
      for as long as it likes: those that happen meanwhile wait here until it goes on. A gpsd that goes, or that is not \
      there yet, is waited for; standard error says so. Fences are GeoJSON, as for 'replay'. Runs until it is ended, or \
      nobody reads it any more.

      With --settings the program that reads is an app among others, which learns of crossings only as far as the user \
      lets it. 'opportune location settings' says and changes that, from the next fix on; a file that cannot be read \
      allows nothing. On a terminal the user is asked where nothing was said yet; a question that nobody answers is \
      asked again at the next start.

      Example: opportune location monitor --fences shops.geojson --json | your-program
      """)

  @Option(help: "The fences.", completion: .file()) var fences: String
  @Option(help: "Where gpsd listens: an address in numbers and a port, [::1]:2947 for IPv6.")
  var gpsd = "127.0.0.1:\(GPSDClient.port)"
  @Option(
    help: "Take the fixes of this track, from now on, instead of gpsd's; it ends with them.",
    completion: .file())
  var track: String?
  @Option(
    help:
      "Of a --track of several devices the one with a value in a column, as vehicle_id=4716; vehicle_id=* takes all for one."
  )
  var device: String?
  @Option(help: "How probable a crossing must be before it is told.") var confidence = 0.99
  @Option(help: "Go by these settings of the user; made if it is not there.", completion: .file())
  var settings: String?
  @Option(help: "With --settings: the app that reads the crossings.") var app = "location-monitor"
  @Flag(
    inversion: .prefixedNo,
    help:
      "With --settings: ask on standard error, and read answers from standard input. (default: on a terminal)"
  )
  var ask: Bool?
  @Option(help: "Seconds that a question waits for an answer.") var patience = 120.0
  @Flag(help: "Print a JSON object a line: fence, kind, at (seconds since 1970), confidence.") var json =
    false

  func validate() throws {
    _ = try address()
    try checkRange(confidence, "--confidence", 0.5...0.999_999)
    try checkRange(patience, "--patience", 1...86_400)
    _ = try device.map(chosenDevice)
    if device != nil, track == nil { throw ValidationError("--device is not expected: it goes with --track") }
    if ask != nil, settings == nil { throw ValidationError("--ask is not expected: it goes with --settings") }
  }

  func run() async throws {
    var policy = MonitorPolicy.standard
    policy.confidence = confidence
    let progress = ProgressLine()
    var session = LocationMonitorSession(
      try PermittedFences(
        app, fences: try readFences(fences, progress: progress),
        purpose: "To tell when you cross a border of \(fences).", monitor: policy),
      settings: settings.map(LocationSettingsFile.init))
    let io = try IOBroker().makeApp(named: "location")
    let (start, began) = (ContinuousClock.now, Date().timeIntervalSince1970)
    let (events, queue) = AsyncStream.makeStream(of: LocationMonitorEvent.self)
    let output = PatientOutput { queue.yield(.notTold($0)) }
    let questions = LocationQuestions(interface, app: app, answers: queue)
    func tell(_ news: [LocationMonitorSession.News]) {
      for item in news {
        switch item {
        case .crossing(let crossing, let fence):
          output.tell(line(crossing, of: fence, at: began + crossing.at.seconds), as: json ? .json : .text)
        case .note(let text): printToStandardError(text)
        case .question(let question): questions.show(question)
        }
      }
    }
    tell(try progress.during("starting") { _ in try session.start() })
    let source: any LocationSource =
      if let track {
        TraceSource(try readTrack(track, device: device, progress: progress), start: start)
      } else {
        try GPSDClient(io, address: address(), start: start)
      }
    let name = track.map { "'\($0)'" } ?? "gpsd at \(gpsd)"
    let pump = Task {
      for await update in source.updates() { queue.yield(.source(update)) }
      queue.finish()
    }
    defer { pump.cancel() }
    for await event in events {
      switch event {
      case .source(.available(let isAvailable)):
        printToStandardError(isAvailable ? "\(name) gives fixes" : "no fixes from \(name); waiting")
      case .source(.fix(let fix)): tell(try session.handle(.fix(fix), at: fix.time))
      // Which cell it is matters to significant changes alone.
      case .source(.cell): continue
      case .answered(let answer): tell(try session.handle(answer, at: .zero + start.duration(to: .now)))
      case .notTold(let failure): throw failure
      }
    }
    try output.flush()
  }

  private var interface: any LocationUserInterface {
    let asks = ask ?? (isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1)
    guard settings != nil, asks else { return NobodyToAsk() }
    return TerminalLocationInterface(
      input: STDIN_FILENO, output: STDERR_FILENO, patience: .milliseconds(Int64(patience * 1000)))
  }

  private func line(_ crossing: Crossing, of fence: String, at seconds: Double) -> String {
    let confidence = String(format: "%.4f", crossing.confidence)
    guard json else {
      let time = Date(timeIntervalSince1970: seconds).formatted(.iso8601)
      return ["\(time)  \(crossing.kind.rawValue)  \(fence)  (\(confidence))"].asLines
    }
    return "{\"fence\":\(GeoJSON.quoted(fence)),\"kind\":\"\(crossing.kind.rawValue)\","
      + "\"at\":\(String(format: "%.3f", seconds)),\"confidence\":\(confidence)}\n"
  }

  private func address() throws -> SocketAddress {
    let expected = ValidationError(
      "--gpsd '\(gpsd)': expected an address in numbers and a port, as 127.0.0.1:2947")
    guard let colon = gpsd.lastIndex(of: ":"), let port = UInt16(gpsd[gpsd.index(after: colon)...]), port > 0
    else {
      throw expected
    }
    let host = gpsd[..<colon]
    let isBracketed = host.hasPrefix("[") && host.hasSuffix("]") && host.count > 2
    let address: SocketAddress =
      isBracketed ? .ipv6(String(host.dropFirst().dropLast()), port: port) : .ipv4(String(host), port: port)
    guard address.isWellFormed else { throw expected }
    return address
  }
}

/// Standard output for a reader who may stop: who tells him something never waits for him, and what he has
/// not read yet is kept.
private final class PatientOutput: Sendable {
  private let queue = DispatchQueue(label: "output")
  private let failure = Mutex<OutputFailure?>(nil)
  private let hasFailed: @Sendable (OutputFailure) -> Void

  /// - Parameter hasFailed: called once, on a thread of its own; nothing more is written then.
  init(_ hasFailed: @escaping @Sendable (OutputFailure) -> Void) { self.hasFailed = hasFailed }

  func tell(_ text: String, as form: TextForm) {
    queue.async {
      guard self.failure.withLock({ $0 }) == nil else { return }
      do throws(OutputFailure) { try StandardOutput.write(text, as: form) } catch {
        self.failure.withLock { $0 = error }
        self.hasFailed(error)
      }
    }
  }

  /// Returns when all has been read.
  func flush() throws(OutputFailure) {
    queue.sync {}
    if let failure = failure.withLock({ $0 }) { throw failure }
  }
}
