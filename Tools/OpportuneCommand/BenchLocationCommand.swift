import ArgumentParser
import OpportuneBench
import OpportuneLocation
import OpportuneTraces

struct BenchLocationCommand: MeasuringCommand {
  typealias Measured = LocationBench

  static let configuration = CommandConfiguration(
    commandName: "location",
    abstract:
      "Fences: what a fix costs, what they take of memory, how right and how thrifty they are on recorded ways.",
    discussion: """
      fixes: a drive among circles scattered over 100 km by 100 km; the first fix, which finds all that is new, is not \
      timed.
      sampling: a track is run through 200 circles, half of them with their middle within 100 m of it, with every fix \
      and with those that the sampler asks for, more and more patient. Where the track repeats its positions, each second \
      between two is interpolated.
      history: the way of a track rebuilt from what an app keeps that is located, rests, and is located again; the longer \
      it rests, the fewer fixes and the greater the error.
      reference: crossings of such circles told from a track, against those of a better receiver's.
      exits: exits of a fence that phones recorded, against those told from the same fixes.
      Ctrl-C ends the run with what it has.
      """)

  @Option(
    help: """
      Figures, separated by commas or repeated: \(LocationBenchOptions.Figure.allCases.map(\.rawValue).joined(separator: ", ")). \
      (default: all that there is data for)
      """)
  var figure: [String] = []
  @Option(help: "Numbers of fences, separated by commas or repeated. (default: 1,1000,100000)")
  var fences: [String] = []
  @Option(help: "Fixes of each drive, one a second at 15 m/s.") var fixes = 20_000
  @Option(help: "Metres from the middle of a fence to its border.") var radius: Double = 100
  @Option(help: "Of the figure sampling: infer passes between fixes, as location replay --wander does.")
  var wander: Double?
  @Option(help: "Repeats of each drive; medians are reported.") var repeats = 3
  @Option(help: "A recorded track: GPX, NMEA 0183 or CSV. May be repeated.", completion: .file())
  var track: [String] = []
  @Option(
    help:
      "Of tracks of several devices the one with a value in a column, as vehicle_id=4716; vehicle_id=* takes all for one."
  )
  var device: String?
  @Option(
    help: "Where the device of the one --track really was, recorded at the same time.", completion: .file())
  var reference: String?
  @Option(help: "A phone's log, as e-mission has it: JSON. May be repeated.", completion: .file())
  var log: [String] = []
  @OptionGroup var output: ReportOutput

  /// A figure that is asked for by name, and has nothing to measure, is a mistake.
  func check(_ options: LocationBenchOptions) throws {
    _ = try device.map(chosenDevice)
    for figure in options.figures where !self.figure.isEmpty {
      let missing: String? =
        switch figure {
        case .fixes, .geometry: nil
        case .sampling, .history: track.isEmpty ? "--track" : nil
        case .reference: reference == nil ? "--reference" : nil
        case .exits: log.isEmpty ? "--log" : nil
        }
      if let missing { throw ValidationError("--figure \(figure.rawValue) needs \(missing)") }
    }
    if reference != nil, track.count != 1 {
      throw ValidationError("--reference goes with one --track, not with \(track.count)")
    }
  }

  func bench() throws -> LocationBench {
    var bench = LocationBench(
      options: try options(), isInterrupted: wasInterrupted, progress: printToStandardError)
    bench.tracks = try track.map(recorded)
    bench.logs = try log.map(logged)
    bench.reference = try reference.map(recorded)
    return bench
  }

  private func recorded(_ path: String) throws -> RecordedTrack {
    let name = path.split(separator: "/").last.map(String.init) ?? path
    var trace = try readTrack(path, device: device, progress: ProgressLine())
    let changes = zip(trace.fixes, trace.fixes.dropFirst()).count { $0.position != $1.position }
    if changes * 2 < trace.fixes.count {
      trace = try trace.everySecond()
      printToStandardError("\(name) repeats its positions: \(changes) changes, interpolated between")
    }
    return RecordedTrack(name: name, trace: trace)
  }

  private func logged(_ path: String) throws -> PhoneLog {
    do { return try PhoneLog(name: path, reading: try readFile(path)) } catch let error as BenchError {
      throw Failure(error.description)
    }
  }

  func options() throws(BenchError) -> LocationBenchOptions {
    try LocationBenchOptions(
      figures: names(figure), fences: fences.isEmpty ? ["1", "1000", "100000"] : names(fences), fixes: fixes,
      repeats: repeats, radius: radius, wander: wander)
  }
}
