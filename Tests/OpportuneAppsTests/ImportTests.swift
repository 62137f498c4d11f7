import Opportune
import TestSupport
import Testing

/// What is in scope for a program that imports Opportune only.
@Suite(.bounded) struct ImportTests {
  @Test(.timeLimit(.minutes(1))) func whatItsCallsTakeAndReturnCanBeNamed() async throws {
    let io = try IOBroker().makeApp(named: "files")
    let path: FilePath = "/dev/null"
    let null: FileDescriptor = try await io.open(path, .readOnly)
    #expect(try await io.status(null).permissions.contains(.ownerRead))
    let all: FilePermissions = [.ownerReadWriteExecute]
    #expect(all.rawValue == 0o700)
    try await io.close(null)
    do {
      _ = try await io.open("/nonexistent", .readOnly)
      Issue.record("there is such a file")
    } catch {
      #expect(error.code == .system(Errno.noSuchFileOrDirectory))
    }
  }
}
