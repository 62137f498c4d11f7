import Foundation
internal import Glibc
internal import OpportuneBase

/// The apps that are files alone: a folder `NAME.checkpoint` each, beside the states that programs have
/// saved. They outlive the host, and not the machine's run: nobody waits until they are on storage.
///
/// Used by one thread at a time.
final class Checkpoints {
  /// What is to be known of an app beside what CRIU has written.
  struct Kept: Codable, Sendable, Hashable {
    /// Of which run of the machine it is.
    var boot: String
    /// The process of which all others descend.
    var root: Int32
    /// The numbers of all its processes and threads, which are theirs again.
    var ids: [Int32]
    /// Descriptors of the host that stand for what the program had, as `fd[1]:pipe:[77]`.
    var inherited: [String]
  }

  struct Checkpoint: Sendable, Hashable {
    let kept: Kept
    /// What is told of it, for people.
    var note: String
  }

  private let folder: String
  private(set) var all: [String: Checkpoint] = [:]
  /// What a host before has begun and not seen the end of.
  private(set) var begun: [String: Kept] = [:]

  private static let suffix = ".checkpoint"
  /// Of what is known beside; with the second name until the checkpoint is made.
  private static let file = "/opportune.json"
  private static let newFile = file + ".new"
  private static let leftNote = "a checkpoint of it was made under a host before"

  static let boot = SystemFile.text("/proc/sys/kernel/random/boot_id").map {
    String($0.prefix { $0 != "\n" })
  }

  /// Finds what a host before has left; the folder need not be there.
  ///
  /// - Parameter log: told what is of no use any more, and removed.
  init(in folder: String, log: (String) -> Void) {
    self.folder = folder
    for entry in SystemFile.names(in: folder) where entry.hasSuffix(Self.suffix) {
      let name = String(entry.dropLast(Self.suffix.utf8.count))
      guard (try? AppName.check(name)) != nil, isOurs(name) else { continue }
      let (made, new) = (kept(name, Self.file), kept(name, Self.newFile))
      guard let kept = made ?? new else {
        drop(name, log)
        continue
      }
      guard kept.boot == Self.boot else {
        log("the checkpoint of '\(name)' is of another run of the machine, and removed")
        remove(name)
        continue
      }
      if made == nil {
        begun[name] = kept
      } else {
        all[name] = Checkpoint(kept: kept, note: Self.leftNote)
      }
    }
  }

  private func kept(_ name: String, _ file: String) -> Kept? {
    SystemFile.bytes(path(name) + file).flatMap { try? JSONDecoder().decode(Kept.self, from: Data($0)) }
  }

  /// - Parameter log: told of it.
  private func drop(_ name: String, _ log: (String) -> Void) {
    log("a checkpoint of '\(name)' that was not at its end when a host ended is removed")
    remove(name)
  }

  /// What a host before has begun and CRIU is at still, of an app that is there; the caller looks what
  /// becomes of it.
  func takeBegun(_ name: String) -> Kept? { begun.removeValue(forKey: name) }

  /// Looks what became of what a host before had begun; before its apps are looked at, since CRIU freezes
  /// again what it fails to dump. What CRIU is at still stays begun.
  ///
  /// - Parameters:
  ///   - limit: how long it is waited for in all.
  ///   - log: told what is of no use, and removed.
  ///   - end: ends what there is of an app that was being made again, CRIU with it.
  func settle(limit: Duration, log: (String) -> Void, end: (String) -> Void) {
    let deadline = ContinuousClock.now + limit
    for name in all.keys where CheckpointTool.mayBeRestoring(from: path(name)) {
      let isOver = CheckpointTool.waitForEnd(in: path(name), until: deadline)
      if isOver, CheckpointTool.hasRestored(from: path(name)) {
        remove(name)
      } else {
        end(name)
        CheckpointTool.forgetRestore(from: path(name))
      }
    }
    for (name, kept) in begun where CheckpointTool.waitForEnd(in: path(name), until: deadline) {
      begun[name] = nil
      if CheckpointTool.hasDumped(to: path(name)) {
        keep(name, kept, note: Self.leftNote)
      } else {
        drop(name, log)
      }
    }
  }

  /// Where that of an app is.
  func path(_ name: String) -> String { folder + "/" + name + Self.suffix }

  private func isOurs(_ name: String) -> Bool {
    var status = stat()
    return lstat(path(name), &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
      && status.st_uid == geteuid() && status.st_mode & 0o077 == 0
  }

  /// Makes an empty folder for it, in one that is there.
  ///
  /// - Throws: ``ProcessHostError``: `system`.
  func prepare(_ name: String, _ kept: Kept) throws(ProcessHostError) -> String {
    let path = path(name)
    guard begun[name] == nil else {
      throw ProcessHostError(.system("CRIU is at work in '\(path)' still, for a host before", EBUSY))
    }
    remove(name)
    guard mkdir(path, 0o700) == 0 else {
      throw ProcessHostError(.system("the folder '\(path)' of a checkpoint could not be made", errno))
    }
    let file = URL(filePath: path + Self.newFile)
    do { try JSONEncoder().encode(kept).write(to: file) } catch {
      throw ProcessHostError(.system("'\(file.path)' could not be written", EIO))
    }
    return path
  }

  /// The checkpoint that was prepared is made.
  func keep(_ name: String, _ kept: Kept, note: String) {
    rename(path(name) + Self.newFile, path(name) + Self.file)
    all[name] = Checkpoint(kept: kept, note: note)
  }

  func note(_ name: String, _ text: String) { all[name]?.note = text }

  /// What the files have together, in bytes.
  func size(of name: String) -> UInt64 {
    SystemFile.names(in: path(name)).reduce(0) { sum, file in
      var status = stat()
      return lstat(path(name) + "/" + file, &status) == 0 ? sum + UInt64(clamping: status.st_size) : sum
    }
  }

  func remove(_ name: String) {
    all[name] = nil
    try? FileManager.default.removeItem(atPath: path(name))
  }

  /// Leaves all to the next host.
  func leave() { all = [:] }
}
