import Foundation

/// Recorded data beside the project. Where it is missing, tests that need it are skipped with a message.
public enum RecordedData {
  public static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().appending(path: "shared/data")

  public static func has(_ name: String) -> Bool {
    FileManager.default.fileExists(atPath: folder.appending(path: name).path)
  }

  /// Of a gzipped file, by the system's own tool.
  public static func gunzipped(_ name: String) throws -> Data {
    let process = Process(["/bin/zcat", folder.appending(path: name).path])
    let pipe = Pipe()
    process.standardOutput = pipe
    try process.run()
    let data = pipe.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return data
  }
}
