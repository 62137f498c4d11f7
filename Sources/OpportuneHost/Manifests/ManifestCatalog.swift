internal import Glibc
internal import OpportuneBase

/// The manifests in some folders, read when they are asked for: what is put there counts from then on.
///
/// May be used on any thread.
package final class ManifestCatalog: Sendable {
  /// Folders of manifests: `.plist`, `.json` and `.desktop`. Of two of one name the first counts.
  private let folders: [String]
  /// Folders of desktop entries, which are read by name alone.
  private let applications: [String]
  private let user: uid_t
  private let log: @Sendable (String) -> Void
  private let lock = Lock()
  nonisolated(unsafe) private var told: Set<String> = []  // under the lock

  /// The largest file, in bytes.
  static let largestFile = 256 * 1024
  /// The most files of a folder that are read.
  static let mostFiles = 2000

  /// - Parameter log: told once of each bad file, and of keys without an effect; on the thread that asks.
  package init(
    folders: [String] = [], applications: [String] = [], user: UInt32 = geteuid(),
    log: @escaping @Sendable (String) -> Void = { _ in }
  ) {
    (self.folders, self.applications, self.user, self.log) = (folders, applications, user, log)
  }

  /// Where manifests are unless something else is said: of the user, and of the machine.
  package static func standardFolders(environment: [String: String]) -> [String] {
    let own =
      absolute(environment["XDG_CONFIG_HOME"]) ?? absolute(environment["HOME"]).map { $0 + "/.config" }
    return (own.map { [$0 + "/opportune/apps"] } ?? []) + ["/etc/opportune/apps"]
  }

  /// Where programs install their desktop entries.
  package static func applicationFolders(environment: [String: String]) -> [String] {
    let own =
      absolute(environment["XDG_DATA_HOME"]) ?? absolute(environment["HOME"]).map { $0 + "/.local/share" }
    let listed =
      environment["XDG_DATA_DIRS"].flatMap { $0.isEmpty ? nil : $0 } ?? "/usr/local/share:/usr/share"
    let all = [own].compactMap(\.self) + listed.split(separator: ":").map(String.init).compactMap(absolute)
    return all.map { $0 + "/applications" }
  }

  /// The specification has others ignored.
  private static func absolute(_ path: String?) -> String? { path?.hasPrefix("/") == true ? path : nil }

  /// All of the folders of manifests that can be read, by name; not those of applications.
  package func all() -> [HostManifest] { scan().found }

  /// The manifest of an app.
  ///
  /// - Returns: `nil` where there is none of that name.
  /// - Throws: ``ProcessHostError``: `manifest` where its file is wrong.
  package func find(_ name: String) throws(ProcessHostError) -> HostManifest? {
    // Also a part of a path below.
    try AppName.check(name)
    let (found, hidden, errors) = scan()
    if let manifest = found.first(where: { $0.name == name }) { return manifest }
    if hidden.contains(name) { return nil }
    if let error = errors.first(where: { Self.stem($0.file) == name }) {
      throw ProcessHostError(.manifest(error))
    }
    for folder in applications {
      let file = folder + "/" + name + ".desktop"
      guard SystemFile.exists(file) else { continue }
      do throws(HostManifestError) {
        guard var manifest = try HostManifest(file: file, bytes: Self.read(file, user: user)) else {
          return nil
        }
        manifest.name = name
        tell(manifest.notes)
        return manifest
      } catch {
        throw ProcessHostError(.manifest(error))
      }
    }
    return nil
  }

  private static func stem(_ file: String) -> String {
    let name = file.split(separator: "/").last ?? ""
    return String(name[..<(name.lastIndex(of: ".") ?? name.endIndex)])
  }

  private func scan() -> (found: [HostManifest], hidden: Set<String>, errors: [HostManifestError]) {
    var found: [String: HostManifest] = [:]
    var hidden: Set<String> = []
    var errors: [HostManifestError] = []
    for folder in folders {
      let names = SystemFile.names(in: folder).filter { name in
        [".plist", ".json", ".desktop"].contains { name.hasSuffix($0) } && !name.hasPrefix(".")
      }.sorted()
      if names.count > Self.mostFiles {
        tell(["'\(folder)' has \(names.count) manifests: the first \(Self.mostFiles) are read"])
      }
      for name in names.prefix(Self.mostFiles) {
        let file = folder + "/" + name
        do throws(HostManifestError) {
          guard let manifest = try HostManifest(file: file, bytes: Self.read(file, user: user)) else {
            if found[Self.stem(file)] == nil { hidden.insert(Self.stem(file)) }
            continue
          }
          guard found[manifest.name] == nil, !hidden.contains(manifest.name) else {
            if let other = found[manifest.name]?.file {
              tell(["'\(file)': '\(other)' has the name '\(manifest.name)' already, and counts"])
            }
            continue
          }
          found[manifest.name] = manifest
          tell(manifest.notes)
        } catch {
          errors.append(error)
          tell([error.message])
        }
      }
    }
    return (found.values.sorted { $0.name < $1.name }, hidden, errors)
  }

  /// Once each, since folders are read again and again.
  private func tell(_ lines: [String]) {
    let new = lock.withLock { () -> [String] in
      if told.count > 10_000 { told = [] }
      return lines.filter { told.insert($0).inserted }
    }
    for line in new { log("manifest \(line)") }
  }

  /// Neither waits for a pipe nor follows a manifest that somebody else could have written.
  private static func read(_ file: String, user: uid_t) throws(HostManifestError) -> [UInt8] {
    let descriptor = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
    guard descriptor >= 0 else { throw HostManifestError(file, .file(errorText(errno))) }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw HostManifestError(file, .file(errorText(errno))) }
    guard status.st_mode & S_IFMT == S_IFREG else {
      throw HostManifestError(file, .file("it is no regular file"))
    }
    guard status.st_uid == user || status.st_uid == 0 else {
      throw HostManifestError(
        file, .file("it is of user \(userName(status.st_uid)), expected \(userName(user)) or root"))
    }
    guard status.st_mode & S_IWOTH == 0 else {
      throw HostManifestError(file, .file("everybody may write it, which lets others choose what is started"))
    }
    var result: [UInt8] = []
    var bytes = [UInt8](repeating: 0, count: 16_384)
    while result.count <= largestFile {
      let count = Glibc.read(descriptor, &bytes, bytes.count)
      if count < 0, errno == EINTR { continue }
      if count < 0 { throw HostManifestError(file, .file(errorText(errno))) }
      if count == 0 { return result }
      result += bytes[..<count]
    }
    throw HostManifestError(file, .file("it is larger than \(largestFile) bytes"))
  }
}
