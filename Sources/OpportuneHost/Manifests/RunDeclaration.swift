import Foundation
internal import Glibc
internal import OpportuneBase

/// How a program that `opportune run` has started is started anew: with what it was started with. (R-LIFE-07)
package struct RunDeclaration: Sendable, Hashable, Codable {
  /// The program, by a path from the root, and its arguments.
  package var command: [String]
  /// Where it starts, by a path from the root.
  package var folder: String
  /// As `NAME=value`.
  package var environment: [String]

  /// The most bytes of all of these, each with its end.
  package static let largest = 32 << 10

  package init(command: [String], folder: String, environment: [String]) {
    (self.command, self.folder, self.environment) = (command, folder, environment)
  }

  /// - Throws: ``ProcessHostError``: `value`.
  package func check() throws(ProcessHostError) {
    guard let program = command.first, program.hasPrefix("/") else {
      throw Self.wrong("the program", command.first ?? "", "expected a path from the root")
    }
    guard folder.hasPrefix("/") else {
      throw Self.wrong("the folder of '\(program)'", folder, "expected a path from the root")
    }
    let all = command + [folder] + environment
    if let text = all.first(where: { $0.utf8.contains(0) }) {
      throw Self.wrong("what '\(program)' is started with", text, "expected no null character")
    }
    if let entry = environment.first(where: { !$0.dropFirst().contains("=") }) {
      throw Self.wrong("the environment of '\(program)'", entry, "expected NAME=value")
    }
    let bytes = all.reduce(0) { $0 + $1.utf8.count + 1 }
    guard bytes <= Self.largest else {
      throw ProcessHostError(
        .value(
          "what is kept to start '\(program)' anew, its arguments, folder and environment,",
          "\(bytes) bytes", "expected at most \(Self.largest)"))
    }
  }

  private static func wrong(_ what: String, _ value: String, _ expected: String) -> ProcessHostError {
    ProcessHostError(.value(what, "'\(value.printable)'", expected))
  }

  /// As if a file declared it.
  func manifest(_ name: String) -> HostManifest { HostManifest(name: name, run: self) }
}

extension RunDeclaration {
  /// - Returns: `nil` where no file of ours, which nobody else may write, has a declaration.
  init?(file: String) {
    let descriptor = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var status = stat()
    // Each byte takes six at most, as \u0001.
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
      status.st_uid == geteuid(), status.st_mode & 0o022 == 0, status.st_size <= 8 * Self.largest,
      let bytes = SystemFile.bytes("/proc/self/fd/\(descriptor)"),
      let found = try? JSONDecoder().decode(Self.self, from: Data(bytes)), (try? found.check()) != nil
    else { return nil }
    self = found
  }

  /// - Returns: 0, or the number of the error.
  func write(to file: String) -> Int32 {
    guard let data = try? JSONEncoder().encode(self) else { return EINVAL }
    unlink(file)
    let descriptor = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { return errno }
    defer { close(descriptor) }
    let error = data.withUnsafeBytes { SystemFile.write($0, to: descriptor) }
    if error != 0 { unlink(file) }
    return error
  }
}
