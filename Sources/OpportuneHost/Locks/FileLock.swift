internal import Glibc

/// A lock on a file, as the kernel tells of it in /proc/locks and in the fdinfo of a descriptor.
struct FileLock: Hashable, Sendable {
  enum Kind: String, Sendable {
    case posix = "POSIX"
    case flock = "FLOCK"
    /// Of an open file description: whoever has the descriptor holds it, and no pid is told.
    case ofd = "OFDLCK"
    case lease = "LEASE"
  }

  let kind: Kind
  /// Else others may read.
  let isExclusive: Bool
  /// -1 or 0 where the kernel names none.
  let pid: pid_t
  /// `MAJOR:MINOR:INODE`, as it is printed.
  let file: String
  /// Somebody waits for it; else it is held.
  let isWaiting: Bool

  /// The longest line that is looked at; the kernel's are of 120 bytes at most.
  static let longestLine = 256
  /// The most locks of one list.
  static let most = 20_000

  /// - Returns: `nil` where the line is none of a lock, or of a kind that keeps nobody waiting.
  init?(_ line: some Collection<UInt8>) {
    guard line.count <= Self.longestLine else { return nil }
    var words = String(decoding: line, as: UTF8.self).split { $0 == " " || $0 == "\t" }
    // In fdinfo.
    if words.first == "lock:" { words.removeFirst() }
    guard let number = words.first, number.last == ":", UInt64(number.dropLast()) != nil else { return nil }
    words.removeFirst()
    isWaiting = words.first == "->"
    if isWaiting { words.removeFirst() }
    guard words.count >= 5, let kind = Kind(rawValue: String(words[0])), let pid = pid_t(words[3]), pid >= -1,
      Self.isFile(words[4])
    else { return nil }
    self.kind = kind
    self.pid = pid
    isExclusive = words[2] == "WRITE"
    file = String(words[4])
  }

  private static func isFile(_ word: Substring) -> Bool {
    let parts = word.split(separator: ":", omittingEmptySubsequences: false)
    return parts.count == 3 && UInt32(parts[0], radix: 16) != nil && UInt32(parts[1], radix: 16) != nil
      && UInt64(parts[2]) != nil
  }

  /// The locks in a file of lines; what is no lock is passed over.
  static func all(in bytes: [UInt8]) -> [FileLock] {
    Array(bytes.split(separator: UInt8(ascii: "\n")).lazy.compactMap { FileLock($0) }.prefix(most))
  }
}

/// A lock that an app holds.
package struct HeldLock: Sendable, Hashable, CustomStringConvertible {
  /// Of the file; its device and inode where no descriptor tells it.
  package var path: String
  /// `POSIX`, `FLOCK`, `OFDLCK` or `LEASE`.
  package var kind: String
  package var isExclusive: Bool
  /// The member that holds it.
  package var holder: Int32
  /// Processes that are not the app's; -1: one that is not known.
  package var waiters: [Int32]

  /// For people.
  package var description: String {
    let waiting: String
    switch waiters.first {
    case .none: waiting = ""
    case .some(..<1): waiting = ", for which another process waits"
    case .some(let pid): waiting = ", for which process \(pid) waits"
    }
    return "process \(holder) holds a \(isExclusive ? "write" : "read") lock (\(kind)) of '\(path)'" + waiting
  }
}

enum HeldLocks {
  /// The most descriptors that are looked at.
  private static let mostDescriptors = 20_000

  /// A lock of a descriptor.
  struct Found: Hashable {
    let pid: pid_t
    let path: String
    let lock: FileLock
  }

  /// What the processes of an app hold now.
  static func look(at members: [pid_t]) -> [HeldLock] {
    let table = SystemFile.bytes("/proc/locks").map(FileLock.all) ?? []
    // Also where that list is empty: of a lock whose taker has ended, and whose descriptor lives on in
    // another process, it says nothing in a namespace of pids.
    var found: [Found] = []
    var left = mostDescriptors
    for pid in members {
      for name in SystemFile.names(in: "/proc/\(pid)/fdinfo") where left > 0 {
        left -= 1
        guard let bytes = SystemFile.bytes("/proc/\(pid)/fdinfo/\(name)") else { continue }
        let locks = FileLock.all(in: bytes)
        guard !locks.isEmpty else { continue }
        let path = SystemFile.target(of: "/proc/\(pid)/fd/\(name)")
        for lock in locks { found.append(Found(pid: pid, path: path ?? "file \(lock.file)", lock: lock)) }
      }
    }
    return held(by: Set(members), table, found)
  }

  /// - Parameters:
  ///   - table: of all processes.
  ///   - found: of the members' descriptors.
  static func held(by members: Set<pid_t>, _ table: [FileLock], _ found: [Found]) -> [HeldLock] {
    var result: [HeldLock] = []
    var seen: Set<String> = []
    func add(_ lock: FileLock, _ path: String, of pid: pid_t) {
      // Descriptors of one description, in several processes, have the same lock.
      guard seen.insert("\(lock.kind) \(lock.file) \(lock.isExclusive)").inserted else { return }
      let waiters = table.filter { $0.isWaiting && $0.file == lock.file && !members.contains($0.pid) }.map(
        \.pid)
      result.append(
        HeldLock(
          path: path, kind: lock.kind.rawValue, isExclusive: lock.isExclusive, holder: pid, waiters: waiters))
    }
    for one in found where !one.lock.isWaiting {
      add(one.lock, one.path, of: members.contains(one.lock.pid) ? one.lock.pid : one.pid)
    }
    // Whose descriptors may not be read.
    for lock in table where !lock.isWaiting && members.contains(lock.pid) {
      add(lock, "file \(lock.file)", of: lock.pid)
    }
    return result
  }
}
