import Foundation
import OpportuneBase
import OpportuneLocation

/// The file of location settings. Several processes may change it at the same time: each change is atomic,
/// and none is lost.
struct LocationSettingsFile {
  let path: String
  private var seen: Version?

  init(_ path: String) { self.path = path }

  /// What tells one content from the next; `rename` makes a new inode.
  private struct Version: Equatable {
    var inode: UInt64
    var size: Int64
    var seconds: Int
    var nanoseconds: Int
  }

  /// What the file says; of none that is there, nothing was chosen, unless it must be there.
  func read(mustExist: Bool = false) throws -> LocationSettings {
    guard mustExist || access(path, F_OK) == 0 || errno != ENOENT else { return LocationSettings() }
    let data = try readFile(path)
    do { return try LocationSettings(reading: data) } catch { throw Failure("'\(path)': \(error)") }
  }

  /// What the file says, if it may be another than the last time; `nil`: it is the same.
  mutating func readIfChanged() throws -> LocationSettings? {
    let version = version
    guard version != seen else { return nil }
    // Noted first: what is wrong is said once, and a change while it is read is seen the next time.
    seen = version
    return try read()
  }

  private var version: Version {
    var status = stat()
    guard stat(path, &status) == 0 else { return Version(inode: 0, size: -1, seconds: 0, nanoseconds: 0) }
    return Version(
      inode: UInt64(status.st_ino), size: Int64(status.st_size), seconds: status.st_mtim.tv_sec,
      nanoseconds: status.st_mtim.tv_nsec)
  }

  /// Changes the file as a whole. Whoever reads it meanwhile has the old content or the new one.
  ///
  /// - Returns: what it says then.
  @discardableResult
  func update(_ change: (inout LocationSettings) throws -> Void) throws -> LocationSettings {
    // A link stays one.
    let target = URL(fileURLWithPath: path).resolvingSymlinksInPath()
    let folder = open(target.deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard folder >= 0 else { throw OutputFailure("'\(path)' cannot be written") }
    defer { close(folder) }
    // The folder stands for the file, which is replaced; the lock ends with the descriptor.
    guard flock(folder, LOCK_EX) == 0 else {
      throw Failure("'\(path)' cannot be locked: \(errorText(errno))")
    }
    let before = try read()
    var settings = before
    try change(&settings)
    if settings != before || access(path, F_OK) != 0 {
      var status = stat()
      let mode = stat(target.path, &status) == 0 ? status.st_mode & 0o777 : 0o600
      try replaceFile(target.path, by: settings.json(), mode: mode, name: path)
      // So that the new name outlives a power cut too. It is there already, so a folder that cannot do this
      // is no failure.
      fsync(folder)
    }
    return settings
  }
}
