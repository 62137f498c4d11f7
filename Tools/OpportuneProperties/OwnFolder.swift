import Foundation
import ToolSupport

/// A folder for files of properties that must have a name.
enum OwnFolder {
  private static let folder = try? ScratchFolder(
    in: FileManager.default.temporaryDirectory.path, named: "opportune-fuzz")

  /// `nil` where none can be made. Once for the process.
  static var path: String? { folder?.path }
}
