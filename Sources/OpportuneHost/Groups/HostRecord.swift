import Foundation
internal import Glibc
internal import OpportuneBase

/// What a host writes down of its apps, so that the next one knows them where it was killed: which processes
/// it has taken in that carry no mark, and whose taking was not at its end.
///
/// A file of lines of JSON, each appended by one call, since a host may be killed between any two. A line
/// that was cut off, or is none, does not count.
///
/// Used by one thread at a time.
final class HostRecord {
  /// The latest of each mark counts.
  struct Entry: Codable, Equatable {
    let name: String
    /// Of the app, in the environment of its processes.
    let mark: String
    /// The control group; `nil`: none.
    var group: String?
    /// Those that are known, or the first while they are taken.
    var known: [Known]
    /// Whether its processes were being taken in.
    var isTaking = false
    var hasEnded = false
  }

  struct Known: Codable, Hashable {
    let pid: Int32
    let started: UInt64

    init(_ id: ProcessID) { (pid, started) = (id.pid, id.started) }

    /// `nil` where it has ended.
    var living: ProcessStat? {
      ProcessStat(of: pid).flatMap { $0.id.started == started && !$0.hasEnded ? $0 : nil }
    }
  }

  /// The first line: of another start of the machine nothing is true.
  private struct Head: Codable, Equatable { let boot: String }

  private let path: String
  private let head: Head
  private var file: Int32 = -1
  private(set) var entries: [String: Entry] = [:]
  private var length = 0
  /// It is written anew when it has grown to so many bytes.
  private static let longest = 1 << 18

  /// Reads what a host before has left.
  init(at path: String) {
    self.path = path
    let boot = SystemFile.text("/proc/sys/kernel/random/boot_id") ?? ""
    head = Head(boot: String(boot.prefix { $0 != "\n" }))
    read()
  }

  deinit { if file >= 0 { close(file) } }

  private func read() {
    var status = stat()
    // Another user's says what that user likes.
    guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(),
      let bytes = SystemFile.bytes(path, limit: 2 * Self.longest)
    else { return }
    let lines = bytes.split(separator: 10).map { Data($0) }
    let decoder = JSONDecoder()
    guard let first = lines.first, (try? decoder.decode(Head.self, from: first)) == head else { return }
    for line in lines.dropFirst() {
      guard let entry = try? decoder.decode(Entry.self, from: line) else { continue }
      entries[entry.mark] = entry.hasEnded ? nil : entry
    }
  }

  /// Writes an app down as it is now; nothing where that has not changed.
  ///
  /// - Returns: what could not be done, for people.
  func write(_ entry: Entry) -> [String] {
    guard entries[entry.mark] != entry else { return [] }
    entries[entry.mark] = entry.hasEnded ? nil : entry
    // The first line of a host writes the file anew, without what is no more.
    guard file >= 0, length < Self.longest else { return note(rewrite()) }
    return note(append([entry], to: file))
  }

  /// Leaves those with these marks, whose processes live.
  func keep(_ marks: Set<String>) -> [String] {
    entries = entries.filter { marks.contains($0.key) }
    return note(rewrite())
  }

  private func note(_ error: Int32) -> [String] {
    error == 0
      ? []
      : ["'\(path)' could not be written: \(errorText(error)); a host that is killed may not know all again"]
  }

  /// A file that has not all is never seen.
  private func rewrite() -> Int32 {
    let new = path + ".new"
    unlink(new)
    let made = open(new, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard made >= 0 else { return errno }
    length = 0
    let error = append(Array(entries.values), to: made, isHead: true)
    guard error == 0, rename(new, path) == 0 else {
      let number = error == 0 ? errno : error
      close(made)
      unlink(new)
      return number
    }
    if file >= 0 { close(file) }
    file = made
    return 0
  }

  private func append(_ entries: [Entry], to file: Int32, isHead: Bool = false) -> Int32 {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .withoutEscapingSlashes
    do {
      var lines = isHead ? [try encoder.encode(head)] : []
      lines += try entries.map(encoder.encode)
      for line in lines {
        // A line that was cut off before ends here.
        let bytes = Array(line) + [10]
        let error = bytes.withUnsafeBytes { SystemFile.write($0, to: file) }
        guard error == 0 else { return error }
        length += bytes.count
      }
      return 0
    } catch {
      return EINVAL
    }
  }

  /// Removes the file; there are no apps.
  func remove() { if entries.isEmpty { unlink(path) } }
}
