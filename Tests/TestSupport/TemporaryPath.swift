import Foundation

/// A path that nobody uses; what is made there goes with this.
public final class TemporaryPath: Sendable {
  public let path = FileManager.default.temporaryDirectory.appending(path: "opportune-\(UUID())").path

  public init() {}

  deinit { try? FileManager.default.removeItem(atPath: path) }
}
