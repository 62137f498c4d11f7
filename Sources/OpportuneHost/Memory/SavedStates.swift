internal import Glibc
internal import OpportuneBase

/// The states with which programs are to be started anew, which they have saved themselves: a file each, in a
/// folder of one host. It outlives the host and the machine's run.
///
/// `NAME.new` is what a program is writing, `NAME.state` what one has left that is being ended or has ended,
/// `NAME.due` what one that was started anew has not taken yet. `NAME.run` says how one is started anew that
/// has no manifest.
///
/// Used by one thread at a time.
final class SavedStates {
  /// The largest state, in bytes.
  static let largest = 1 << 20
  /// The longest path of a file, in bytes: programs have a buffer for it.
  static let longestPath = 1000

  struct State: Sendable, Hashable {
    let bytes: Int
    /// The program was started anew, and has not taken it.
    var isDue: Bool
    /// How often it was started since somebody asked for that.
    var starts = 0
    /// What is told of it, for people.
    var note: String
  }

  private enum Kind: String {
    case new, state, due, run
  }

  private let folder: String
  private(set) var all: [String: State] = [:]
  /// How programs are started anew that `opportune run` has started.
  private(set) var runs: [String: RunDeclaration] = [:]
  /// Folders in which others were made that lead to this one.
  private var foldersAbove: Set<String> = []

  /// Finds what a host before has left; the folder need not be there.
  init(in folder: String) {
    self.folder = folder
    for file in SystemFile.names(in: folder) {
      if file.hasSuffix("." + Kind.new.rawValue) { unlink(folder + "/" + file) }
      for (kind, isDue) in [(Kind.due, true), (.state, false)] where file.hasSuffix("." + kind.rawValue) {
        let name = String(file.dropLast(kind.rawValue.utf8.count + 1))
        guard (try? AppName.check(name)) != nil, let bytes = size(of: name, kind) else { continue }
        // The later one counts, where a host was killed between its two.
        if isDue, all[name] != nil { continue }
        all[name] = State(bytes: bytes, isDue: isDue, note: "its state was saved under a host before")
      }
      let name = String(file.dropLast(Kind.run.rawValue.utf8.count + 1))
      guard file.hasSuffix("." + Kind.run.rawValue), (try? AppName.check(name)) != nil, isOurs else {
        continue
      }
      runs[name] = RunDeclaration(file: folder + "/" + file)
    }
  }

  /// Whether the folder is one that our user alone may write.
  private var isOurs: Bool {
    var status = stat()
    return lstat(folder, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR && status.st_uid == geteuid()
      && status.st_mode & 0o022 == 0
  }

  private func path(_ name: String, _ kind: Kind) -> String { "\(folder)/\(name).\(kind.rawValue)" }

  /// `nil` where there is no file of ours.
  private func size(of name: String, _ kind: Kind) -> Int? {
    var status = stat()
    guard lstat(path(name, kind), &status) == 0, status.st_mode & S_IFMT == S_IFREG,
      status.st_uid == geteuid()
    else { return nil }
    return Int(status.st_size)
  }

  /// Has nothing stand where the app is to write its state.
  ///
  /// - Returns: where that is.
  /// - Throws: ``ProcessHostError``: `system`, `notHibernated`.
  func prepare(_ name: String) throws(ProcessHostError) -> String {
    let path = path(name, .new)
    guard path.utf8.count <= Self.longestPath else {
      throw ProcessHostError(
        .notHibernated(
          name, "the path '\(path)' of its state has more than \(Self.longestPath) bytes"))
    }
    try makeFolder(for: name)
    unlink(path)
    return path
  }

  /// - Throws: ``ProcessHostError``: `system`, `notHibernated`.
  func makeFolder(for name: String) throws(ProcessHostError) {
    let path = path(name, .new)
    for (index, byte) in path.utf8.enumerated() where byte == UInt8(ascii: "/") && index > 0 {
      let one = String(decoding: path.utf8.prefix(index), as: UTF8.self)
      guard mkdir(one, 0o700) == 0, let end = one.lastIndex(of: "/") else { continue }
      foldersAbove.insert(end == one.startIndex ? "/" : String(one[..<end]))
    }
    var status = stat()
    guard lstat(folder, &status) == 0 else {
      throw ProcessHostError(.system("the folder '\(folder)' of saved states", errno))
    }
    guard isOurs else {
      throw ProcessHostError(
        .notHibernated(name, "'\(folder)' is to be a folder that the host's user alone may write"))
    }
  }

  /// Drops what an app has written that goes on.
  func discard(_ name: String) { unlink(path(name, .new)) }

  /// Takes what the app has written as its state.
  ///
  /// - Returns: its size, in bytes.
  /// - Throws: ``ProcessHostError``: `notHibernated`, `system`; then an earlier state is as it was.
  func keep(_ name: String) throws(ProcessHostError) -> Int {
    guard let bytes = size(of: name, .new) else {
      discard(name)
      throw ProcessHostError(.notHibernated(name, "it has saved no state"))
    }
    guard bytes <= Self.largest else {
      discard(name)
      throw ProcessHostError(
        .notHibernated(name, "its state has \(bytes) bytes: expected at most \(Self.largest)"))
    }
    chmod(path(name, .new), 0o600)
    guard rename(path(name, .new), path(name, .state)) == 0 else {
      throw ProcessHostError(.system("the state of '\(name)' could not be kept", errno))
    }
    unlink(path(name, .due))
    all[name] = State(bytes: bytes, isDue: false, note: "")
    return bytes
  }

  /// What is to be written to storage, so that the state outlives a loss of power: the file with its name.
  func paths(of name: String) -> [String] {
    [path(name, .state)] + (runs[name] == nil ? [] : [path(name, .run)]) + [folder] + foldersAbove.sorted()
  }

  /// Writes files and folders to storage. Takes as long as that does; any thread.
  ///
  /// - Returns: what could not be written and the number of its error; `nil`: all is.
  @Sendable static func flush(_ paths: [String]) -> (path: String, error: Int32)? {
    for path in paths {
      let file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
      guard file >= 0 else { return (path, errno) }
      defer { close(file) }
      // A file system may have no such thing for folders.
      if fsync(file) != 0, errno != EINVAL { return (path, errno) }
    }
    return nil
  }

  func note(_ name: String, _ text: String) { all[name]?.note = text }

  /// The app is started anew, by somebody's word or on its own.
  ///
  /// - Throws: ``ProcessHostError``: `system`.
  func begin(_ name: String, isAsked: Bool) throws(ProcessHostError) {
    guard let state = all[name] else { return }
    if !state.isDue, rename(path(name, .state), path(name, .due)) != 0 {
      throw ProcessHostError(.system("the state of '\(name)'", errno))
    }
    all[name]?.isDue = true
    all[name]?.starts = isAsked ? 1 : state.starts + 1
  }

  /// The program has come so far, and does not want its state: when it ends, that is no failure.
  func startNoMore(_ name: String) { all[name]?.starts = 0 }

  /// What the app is to take first; `nil`: nothing.
  func due(_ name: String) -> String? { all[name]?.isDue == true ? path(name, .due) : nil }

  /// Leaves all to the next host.
  func leave() { (all, runs) = ([:], [:]) }

  /// It has been taken, or is not wanted any more.
  func remove(_ name: String) {
    all[name] = nil
    for kind in [Kind.new, .state, .due] { unlink(path(name, kind)) }
  }

  // MARK: Declarations of `opportune run`

  /// Keeps how an app is started anew, also for the next host.
  ///
  /// - Throws: ``ProcessHostError``: `value`, `system`, `notHibernated`.
  func declare(_ name: String, _ run: RunDeclaration) throws(ProcessHostError) {
    try run.check()
    try makeFolder(for: name)
    let number = run.write(to: path(name, .run))
    if number != 0 {
      throw ProcessHostError(.system("how '\(name)' is started anew could not be kept", number))
    }
    runs[name] = run
  }

  /// It is not to be started anew.
  func undeclare(_ name: String) {
    if runs.removeValue(forKey: name) != nil { unlink(path(name, .run)) }
  }
}

/// The writing of one state to storage, which is waited for before its program is ended.
///
/// Any thread.
final class StateFlush: @unchecked Sendable {
  // Sendable: the result is touched under the lock alone.
  private let lock = Lock()
  private var result: (path: String, error: Int32)?
  private var isOver = false

  func run(_ flush: @Sendable ([String]) -> (path: String, error: Int32)?, _ paths: [String]) {
    let failed = flush(paths)
    lock.withLock { (result, isOver) = (failed, true) }
  }

  var hasEnded: Bool { lock.withLock { isOver } }

  /// - Throws: ``ProcessHostError``: `system`.
  func check(_ name: String) throws(ProcessHostError) {
    guard let failed = lock.withLock({ result }) else { return }
    throw ProcessHostError(
      .system("the state of '\(name)' could not be written to storage ('\(failed.path)')", failed.error))
  }
}
