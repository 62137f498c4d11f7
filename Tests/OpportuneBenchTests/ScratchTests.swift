import Foundation
import TestSupport
import Testing
import ToolSupport

@testable import OpportuneBench

@Suite(.bounded, .timeLimit(.minutes(1))) struct ScratchTests {
  private func folder() throws -> String {
    let path = NSTemporaryDirectory() + "opportune-scratch-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    return path
  }

  private func names(in folder: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: folder)
  }

  @Test func aFileHasNoNameAndCanBeOpenedAgain() throws {
    let folder = try folder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let file = try ScratchFile(in: folder)
    #expect(try names(in: folder).isEmpty)
    #expect(write(file.descriptor, "abc", 3) == 3)
    #expect(TextFile.read(file.path) == "abc")
    // Programs that the bench starts find it too.
    let child = try ChildProcess.start(["cp", "/dev/null", file.path])
    #expect(ChildProcess.wait(for: child) == 0 && TextFile.read(file.path) == "")
    let error = #expect(throws: BenchError.self) { try ScratchFile(in: "/nonexistent") }
    #expect(error?.description.contains("no file was made in '/nonexistent': No such file") == true)
  }

  @Test func aFileTakesNoNameThatIsThere() throws {
    let folder = try folder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try Data("mine".utf8).write(to: URL(fileURLWithPath: folder + "/mine"))
    #expect(
      symlink(folder + "/mine", folder + "/link") == 0 && symlink(folder + "/none", folder + "/dangling") == 0
    )
    for name in ["mine", "link", "dangling"] {
      #expect(throws: BenchError.self) { try ScratchFile(in: folder, named: name) }
    }
    #expect(try names(in: folder).sorted() == ["dangling", "link", "mine"])
    #expect(TextFile.read(folder + "/mine") == "mine")
  }

  @Test func aFolderGoesWithAllThatIsInIt() throws {
    let folder = try folder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    do {
      let scratch = try ScratchFolder(in: folder)
      let mode = try FileManager.default.attributesOfItem(atPath: scratch.path)[.posixPermissions] as? Int
      #expect(mode == 0o700)
      for name in ["a", "-rf", "b c"] {
        try Data().write(to: URL(fileURLWithPath: scratch.path).appending(path: name))
      }
      #expect(try names(in: folder).count == 1)
    }
    #expect(try names(in: folder).isEmpty)
    #expect(throws: SystemFailure.self) { try ScratchFolder(in: "/nonexistent") }
  }

  @Test func whatHoldsMemoryEndsWithWhoWantsIt() throws {
    let holder = try Holder(mebibytes: 1, source: "/dev/zero")
    try holder.waitUntilFull()
    #expect(!holder.hasEnded(within: 0))
    // Nobody reads, as when the bench was killed.
    holder.letGo()
    holder.reap()
  }

  /// As a checkpointer needs it: on its own, by a name.
  @Test func whatIsAloneHasANameForWhatItWritesTo() throws {
    let folder = try folder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let scratch = try ScratchFolder(in: folder)
    let holder = try Holder(mebibytes: 1, source: "/dev/zero", aloneWith: "\(scratch.path)/fifo")
    try holder.waitUntilFull()
    holder.letGo()
    #expect(kill(holder.process, 0) == 0 && getsid(holder.process) == holder.process)
    #expect(throws: BenchError.self) {
      try Holder(mebibytes: 1, source: "/dev/zero", aloneWith: "\(scratch.path)/fifo")
    }
    holder.end()
  }
}
