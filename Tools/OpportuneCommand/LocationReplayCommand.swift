import ArgumentParser
import OpportuneApps
import OpportuneBase
import OpportuneLocation
import OpportuneTraces

struct LocationReplayCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "replay",
    abstract: "Runs a recorded track through fences in virtual time: crossings, fixes, wake-ups, prompts.",
    discussion: """
      Tracks are GPX, NMEA 0183 (GGA, RMC), or CSV with the columns latitude, longitude and timestamp; unpack .gz files \
      first. Of a CSV of several devices, told apart by a column such as vehicle_id, one has to be chosen: a column tells devices apart by its name, or where the \
      rows of each value can be one device's way and all rows cannot. Fences are \
      GeoJSON: polygons, multipolygons, and points with the property "radius" in metres; the property "altitude" is a pair \
      of metres above the ellipsoid, "dwell" the seconds after which a stay is told, and "name" is what crossings are told \
      by.

      Example: opportune location replay drive.nmea --fences shops.geojson --html drive.html
      """)

  @Argument(help: "The recorded track.", completion: .file()) var track: String
  @Option(help: "The fences.", completion: .file()) var fences: String
  @Option(
    help:
      "Of a track of several devices the one with a value in a column, as vehicle_id=4716; vehicle_id=* takes all for one."
  )
  var device: String?
  @Option(help: "How probable a crossing must be before it is told.") var confidence = 0.99
  @Option(
    help:
      "Standard deviation of fixes in metres, where the track says no accuracy; times the dilution, if any.")
  var deviation = 5.0
  @Option(help: "Seconds between two fixes, at most.") var longest = 600.0
  @Option(help: "Seconds that a crossing may be seen late, for fewer fixes; shorter stays may be missed.")
  var patience = SamplingPolicy.standard.patience.inSeconds
  @Option(
    help: """
      Tell of circles passed through between two fixes, of a device that strays so many metres from the straight way in a \
      second, growing with the root of time; 5 suits cars seen every 20 s. (default: only what a fix has seen)
      """)
  var wander: Double?
  @Flag(help: "Use every fix, instead of those that the sampler asks for.") var continuous = false
  @Option(help: "Write a self-contained page with a map.", completion: .file()) var html: String?
  @Flag(help: "Print JSON.") var json = false

  func validate() throws {
    _ = try options()
    _ = try device.map(chosenDevice)
    try checkRange(deviation, "--deviation", 0.1...10_000)
    if let html { try checkFileName(html) }
  }

  func run() throws { try StandardOutput.write(try output(), as: json ? .json : .text) }

  /// What is printed; writes the page on the way.
  func output() throws -> String {
    if let html { try checkWritable(html) }
    let progress = ProgressLine()
    let regions = try readFences(fences, progress: progress)
    let trace = try readTrack(track, deviation: deviation, device: device, progress: progress)
    let report = try progress.during("replaying") { count in
      try LocationReplay.run(trace, fences: regions, options: options(), progress: count)
    }
    if let html {
      let title = "Replay of \(track.split(separator: "/").last ?? "")"
      let page = progress.during("drawing '\(html)'") { _ in report.page(trace, fences: regions, title: title)
      }
      try write(page, to: html)
    }
    return json ? report.json() : report.text()
  }

  private func options() throws -> LocationReplay.Options {
    var options = LocationReplay.Options()
    options.isContinuous = continuous
    options.policy.monitor.confidence = try checkRange(confidence, "--confidence", 0.5...0.999_999)
    options.policy.monitor.wander = try wander.map { try checkRange($0, "--wander", 0...1000) }
    options.policy.sampling.longest = .milliseconds(
      Int64(try checkRange(longest, "--longest", 1...86_400) * 1000))
    options.policy.sampling.patience = .milliseconds(
      Int64(try checkRange(patience, "--patience", 0...600) * 1000))
    return options
  }
}
