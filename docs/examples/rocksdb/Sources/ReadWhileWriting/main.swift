import Foundation

/// At once, also into a pipe.
func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

/// Each window is a process of its own: RocksDB's own threads cannot be given their priority back, and no
/// window inherits another's memory.
func runWindow(_ contender: Contender, _ settings: Settings) throws -> WindowResult {
  try settings.copyLoaded()
  let process = Process()
  process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
  process.arguments = Array(CommandLine.arguments.dropFirst()) + ["--window", contender.rawValue]
  let output = Pipe()
  process.standardOutput = output
  try process.run()
  let bytes = output.fileHandleForReading.readDataToEndOfFile()
  process.waitUntilExit()
  guard process.terminationReason == .exit, process.terminationStatus == 0 else {
    throw WindowFailure("the window of \(contender.rawValue) failed")
  }
  return try JSONDecoder().decode(WindowResult.self, from: bytes)
}

func runAll(_ settings: Settings) throws {
  try FileManager.default.createDirectory(atPath: settings.folder, withIntermediateDirectories: false)
  defer { try? FileManager.default.removeItem(atPath: settings.folder) }
  let seconds = Int(
    Double(settings.repeats * settings.contenders.count) * (settings.seconds + settings.warmSeconds + 1))
  say("Loading \(settings.keys) keys; then windows, some \(seconds) s")
  try settings.load()
  var report = Report(settings: settings)
  for turn in 1...settings.repeats {
    // Each repeat begins with another contender.
    for index in settings.contenders.indices {
      let contender = settings.contenders[(index + turn - 1) % settings.contenders.count]
      let result = try runWindow(contender, settings)
      report.windows.append(result)
      say("\(turn)/\(settings.repeats) \(contender.rawValue): read p99 \(Int(result.readUs.p99)) µs")
    }
  }
  say(report.table)
  if let path = settings.json { try report.writeJSON(to: path) }
}

if CommandLine.arguments.contains("--help") {
  say(Settings.help)
  exit(0)
}
do {
  let settings = try Settings(Array(CommandLine.arguments.dropFirst()))
  if let contender = settings.window {
    let result = try await Window(settings: settings, contender: contender).run()
    FileHandle.standardOutput.write(try JSONEncoder().encode(result))
  } else {
    try runAll(settings)
  }
} catch {
  FileHandle.standardError.write(Data("ReadWhileWriting: \(error)\n".utf8))
  exit(1)
}
