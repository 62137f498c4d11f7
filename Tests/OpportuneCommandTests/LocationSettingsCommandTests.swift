import ArgumentParser
import Foundation
import OpportuneLocation
import TestSupport
import Testing

@testable import OpportuneCommand

// R-AUTH-10, R-AUTH-24
@Suite(.bounded) struct LocationSettingsCommandTests {
  private func run(_ arguments: String...) throws -> String {
    try #require(LocationSettingsCommand.parse(arguments) as LocationSettingsCommand?).output()
  }

  private func refusal(_ arguments: [String]) throws -> String {
    let error = #expect(throws: (any Error).self, "\(arguments)") {
      try LocationSettingsCommand.parse(arguments).output()
    }
    return LocationSettingsCommand.message(for: try #require(error))
  }

  @Test func whatIsSetIsKeptListedAndReset() throws {
    let folder = try Folder()
    let file = folder.path("location.json")
    #expect(try run(file, "set", "org.example.maps", "whenInUse").contains("org.example.maps  whenInUse\n"))
    _ = try run(file, "set", "spy", "denied")
    let table = """
      app               authorization
      org.example.maps  whenInUse
      spy               denied

      """
    #expect(try run(file) == table && run(file, "list") == table)
    _ = try run(file, "reset", "spy")
    let kept = try LocationSettingsFile(file).read().apps
    #expect(kept == ["org.example.maps": .allowed(.whenInUse), "spy": .notDetermined])
    #expect(try run(file, "off").hasPrefix("all location services are off\napp"))
    #expect(try run(file, "--json") == String(contentsOfFile: file, encoding: .utf8))
    #expect(try LocationSettings(reading: Data(run(file, "--json").utf8)).isEnabled == false)
    #expect(try run(file, "on") != run(file, "off"))
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == ["location.json"])
  }

  @Test func anAppThatHasGoneIsRemoved() throws {
    let folder = try Folder()
    let file = folder.path("location.json")
    for app in ["maps", "spy"] { _ = try run(file, "set", app, "always") }
    #expect(try run(file, "remove", "spy") == "app   authorization\nmaps  always\n")
    #expect(try LocationSettingsFile(file).read().apps == ["maps": .allowed(.always)])
    #expect(
      try refusal([file, "remove", "spy"]).contains("'spy' is not in '\(file)', expected one of 'maps'"))
    #expect(try refusal([file, "remove"]).contains("remove needs the identifier"))
    #expect(try run(file, "remove", "maps") == "no app is listed\n")
  }

  @Test func nothingSaidIsSaidSo() throws {
    let folder = try Folder()
    let file = try folder.file("location.json", "{}".utf8)
    #expect(try run(file) == "no app is listed\n")
    #expect(try refusal([file, "reset", "maps"]).contains("'maps' is not in '\(file)', expected no app"))
  }

  @Test func theFileKeepsItsModeAndALinkStaysOne() throws {
    let folder = try Folder()
    let (file, link) = (try folder.file("location.json", "{}".utf8), folder.path("link.json"))
    #expect(chmod(file, 0o640) == 0 && symlink(file, link) == 0)
    _ = try run(link, "set", "maps", "always")
    #expect(try LocationSettingsFile(file).read().apps == ["maps": .allowed(.always)])
    #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == file)
    let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
    #expect(mode == 0o640)
  }

  @Test func nothingThatOthersPutThereIsWrittenTo() throws {
    let folder = try Folder()
    let (file, other) = (folder.path("location.json"), try folder.file("other", "mine".utf8))
    // As the temporary file was once called.
    #expect(symlink(other, "\(file).\(getpid()).new") == 0)
    _ = try run(file, "set", "maps", "always")
    #expect(try String(contentsOfFile: other, encoding: .utf8) == "mine")
    #expect(try LocationSettingsFile(file).read().apps == ["maps": .allowed(.always)])
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).count == 3)
  }

  @Test func aFileIsNotReplacedByWayOfOneThatIsThereAlready() throws {
    let folder = try Folder()
    let (file, other) = (folder.path("file"), try folder.file("other", "mine".utf8))
    #expect(symlink(other, "\(file).link") == 0 && symlink(folder.path("nothing"), "\(file).dangling") == 0)
    _ = try folder.file("file.plain", "theirs".utf8)
    for suffix in ["link", "dangling", "plain"] {
      let error = #expect(throws: OutputFailure.self) {
        try replaceFile(file, by: "ours", name: "it", suffix: suffix)
      }
      #expect(error?.description.contains("'it' cannot be written") == true)
    }
    #expect(try String(contentsOfFile: other, encoding: .utf8) == "mine")
    #expect(try String(contentsOfFile: "\(file).plain", encoding: .utf8) == "theirs")
    #expect(access(folder.path("nothing"), F_OK) != 0 && access(file, F_OK) != 0)
  }

  @Test func noneOfManyChangesAtOnceIsLost() async throws {
    let folder = try Folder()
    let file = folder.path("location.json")
    try await withThrowingTaskGroup { group in
      for number in 0..<32 {
        group.addTask {
          _ = try LocationSettingsFile(file).update {
            // Gives the others the time to come in between: sleep is the subject.
            usleep(1000)
            $0.apps["app\(number)"] = .denied
          }
        }
      }
      try await group.waitForAll()
    }
    #expect(try LocationSettingsFile(file).read().apps.count == 32)
  }

  @Test func aChangeIsSeenOnceAndOnlyThen() throws {
    let folder = try Folder()
    var store = LocationSettingsFile(folder.path("location.json"))
    #expect(try store.readIfChanged() == LocationSettings())
    #expect(try store.readIfChanged() == nil)
    try store.update { $0.apps["maps"] = .denied }
    #expect(try store.readIfChanged()?.apps == ["maps": .denied])
    try store.update { $0.apps["maps"] = .denied }
    #expect(try store.readIfChanged() == nil, "the same again is no change")
    // As long as the word before: the content's size says nothing.
    try store.update { $0.apps["maps"] = .allowed(.always) }
    #expect(try store.readIfChanged()?.apps == ["maps": .allowed(.always)])
  }

  @Test func whatIsWrongIsNamedWithWhatIsExpected() throws {
    let folder = try Folder()
    let (good, missing) = (try folder.file("good.json", "{}".utf8), folder.path("missing.json"))
    let bad = try folder.file("bad.json", "{\"apps\":{\"maps\":{\"authorization\":3}}}".utf8)
    let cases: [([String], [String])] = [
      ([], ["<file>"]), ([good, "give"], ["give", "  - reset\n  - remove\n"]),
      ([good, "list", "maps"], ["'maps' is not expected", "list takes no app"]),
      ([good, "set"], ["set needs the identifier"]), ([good, "reset", ""], ["reset needs the identifier"]),
      ([good, "set", "maps"], ["set needs an authorization", "always, whenInUse, denied, notDetermined"]),
      ([good, "set", "maps", "maybe"], ["'maybe'", "always, whenInUse, denied, notDetermined"]),
      ([good, "reset", "maps", "always"], ["'always' is not expected", "reset takes no authorization"]),
      ([missing], [missing, "No such file"]),
      ([bad], [bad, "'apps[\"maps\"].authorization' is the number 3.0"]),
      ([bad, "set", "maps", "always"], [bad, "'apps[\"maps\"].authorization' is the number 3.0"]),
      (["/proc/none/l.json", "set", "maps", "always"], ["/proc/none/l.json", "No such file"]),
    ]
    for (arguments, parts) in cases {
      let message = try refusal(arguments)
      for part in parts { #expect(message.contains(part), "\(message)") }
    }
    #expect(
      try String(contentsOfFile: bad, encoding: .utf8).contains("3"), "what cannot be read is not overwritten"
    )
  }
}
