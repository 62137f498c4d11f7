import Foundation

/// A folder that is removed with the test.
final class Folder {
  let url = FileManager.default.temporaryDirectory.appending(path: "opportune-\(UUID().uuidString)")

  init() throws { try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true) }
  deinit { try? FileManager.default.removeItem(at: url) }

  func path(_ name: String) -> String { url.appending(path: name).path }

  func file(_ name: String, _ bytes: some Sequence<UInt8>) throws -> String {
    try Data(bytes).write(to: url.appending(path: name))
    return path(name)
  }
}
