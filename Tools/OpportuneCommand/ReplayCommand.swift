import ArgumentParser
import Opportune
import OpportuneBase
import OpportuneReplay

struct ReplayCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "replay", abstract: "Runs a recording of app usage in virtual time, under a policy.",
    discussion: """
      Known recordings, by their tables: \(TraceReader.formatNames.joined(separator: ", ")). They are SQLite databases; \
      unpack .gz files first. States that the device recorded are compared, never used. Where nothing is recorded for more than \
      half a day, nobody counts as in front. Times are UTC.

      With --memory, apps are removed as memory gets short, by the policy lru, until the rest is below the \
      critical point (live: 5 % below it); each with a sentence that says why. The text has the first of them, --html and --json have the others.

      With --policy, policies of removal are compared: sizes of apps, where they are not recorded, are drawn by seed from \
      those of real ones, so the outcome is synthetic, and the budget is swept down until they differ in how apps come to the front, unless \
      --memory sets it. Policies:
      \(NamedPolicy.allCases.map { "  \($0.rawValue): \($0.explanation)" }.joined(separator: "\n"))

      Examples:
        opportune replay usage.db --grace 10 --memory 2G --html usage.html
        opportune replay usage.db --policy lru,largest --html policies.html
      """)

  @Argument(help: "The recording.", completion: .file()) var trace: String
  @Option(help: "Main memory, in bytes, or with K, M, G (powers of 1024). (default: never short)") var memory:
    String?
  @Option(help: "Share of memory from which on apps are removed, in percent.") var criticalPoint: Double = 75
  @Option(help: "Seconds from leaving the front to suspension.") var grace: Double = 5
  @Option(help: "Seconds that tasks may run in background.") var taskTime: Double = 180
  @Flag(inversion: .prefixedNo, help: "Run on battery; without it, mains lifts all restrictions.")
  var onBattery = true
  @Option(help: "Bytes of an app whose size is not recorded, or with K, M, G. (default: 64M)")
  var footprint: String?
  @Option(
    name: .customLong("manifest"),
    help:
      "Background modes of the apps whose name contains a text, as music=audio,fetch. May be repeated; the first that fits."
  )
  var manifests: [String] = []
  @Option(help: "Write a timeline for Perfetto or chrome://tracing.", completion: .file()) var traceEvents:
    String?
  @Option(
    help: "Write a self-contained page: a timeline, or the policies, and why each app was removed.",
    completion: .file()
  )
  var html: String?
  @Option(help: "Compare policies of removal, separated by commas or repeated.") var policy: [String] = []
  @Option(help: "With --policy: what sizes are drawn with. (default: 1)") var seed: UInt64?
  @Option(help: "With --policy: whose sizes; ios or android. (default: ios)") var sizes: String?
  @Flag(help: "Print JSON.") var json = false

  func validate() throws {
    for file in [html, traceEvents].compactMap({ $0 }) { try checkFileName(file) }
    _ = try options()
    _ = try policies()
    _ = try sizeTable()
  }

  func run() throws {
    let name = trace.split(separator: "/").last ?? ""
    let (policies, options) = (try policies(), try options())
    for file in [html, traceEvents].compactMap({ $0 }) { try checkWritable(file) }
    let recording: Trace
    do {
      recording = try TraceReader.read(trace)
    } catch {
      throw Failure(error.description)
    }
    guard policies.isEmpty else {
      let comparison = try PolicyComparison(
        recording, policies, table: sizeTable(), seed: seed ?? 1, budget: options.memory, options: options)
      if let html { try write(comparison.page(title: "Policies of removal on \(name)"), to: html) }
      return try StandardOutput.write(json ? comparison.json() : comparison.text(), as: json ? .json : .text)
    }
    let report = try Replay.run(recording, options)
    if let traceEvents { try write(report.traceEvents(), to: traceEvents) }
    if let html { try write(report.page(title: "Replay of \(name)"), to: html) }
    try StandardOutput.write(json ? report.json() : report.text(), as: json ? .json : .text)
  }

  func policies() throws -> [NamedPolicy] {
    let alone = [("--trace-events", traceEvents != nil), ("--footprint", footprint != nil)]
    let together = [("--seed", seed != nil), ("--sizes", sizes != nil)]
    if let (name, _) = (policy.isEmpty ? together : alone).first(where: \.1) {
      throw ValidationError("\(name) does not go \(policy.isEmpty ? "without" : "with") --policy")
    }
    let names = names(policy)
    let known = NamedPolicy.allCases.map(\.rawValue).joined(separator: ", ")
    var chosen: [NamedPolicy] = []
    for name in names {
      guard let policy = NamedPolicy(rawValue: name) else {
        throw ValidationError("--policy '\(name)' is not known; expected \(known)")
      }
      guard !chosen.contains(policy) else { throw ValidationError("--policy '\(name)' is given twice") }
      chosen.append(policy)
    }
    return chosen
  }

  private func sizeTable() throws -> FootprintTable {
    guard let sizes else { return .ios }
    guard let table = FootprintTable.all.first(where: { $0.name == sizes }) else {
      let known = FootprintTable.all.map(\.name).joined(separator: ", ")
      throw ValidationError("--sizes '\(sizes)' is not known; expected \(known)")
    }
    return table
  }

  func options() throws -> ReplayOptions {
    var options = ReplayOptions()
    options.onBattery = onBattery
    options.policy.power.fullOnMains = !onBattery
    options.policy.grace = try seconds(grace, "--grace", from: 0)
    options.policy.tasks.wallClock = try seconds(taskTime, "--task-time", from: 0.001)
    options.memory = try memory.map { try bytes($0, "--memory") }
    guard let point = try? CriticalPoint(share: criticalPoint / 100) else {
      throw ValidationError("--critical-point is \(criticalPoint), expected more than 0 and at most 100")
    }
    options.criticalPoint = point
    if let footprint { options.footprint = try bytes(footprint, "--footprint") }
    for rule in manifests {
      let parts = rule.split(separator: "=", maxSplits: 1).map(String.init)
      guard parts.count == 2 else { throw ValidationError("--manifest '\(rule)': expected text=mode,mode") }
      let modes = try parts[1].split(separator: ",").map { name in
        guard let mode = Manifest.Mode(rawValue: String(name)) else {
          let known = Manifest.Mode.allCases.map(\.rawValue).joined(separator: ", ")
          throw ValidationError("--manifest '\(rule)': '\(name)' is no background mode; expected \(known)")
        }
        return mode
      }
      options.manifestRules.append((parts[0], Set(modes)))
    }
    return options
  }

  private func seconds(_ value: Double, _ name: String, from least: Double) throws -> Duration {
    guard value >= least, value <= 86_400 * 365 else {
      throw ValidationError("\(name) is \(value), expected \(least) to a year of seconds")
    }
    return .milliseconds(Int64((value * 1000).rounded()))
  }

  private func bytes(_ text: String, _ name: String) throws -> UInt64 {
    guard let count = byteCount(of: text) else {
      throw ValidationError("\(name) is '\(text)', expected bytes, or a number with K, M or G")
    }
    return count
  }
}
