import ArgumentParser
import TestSupport
import Testing

@testable import OpportuneCommand

@Suite(.bounded) struct BenchLocationCommandTests {
  @Test func whatIsWrongIsNamedWithWhatIsExpected() throws {
    let cases: [([String], [String])] = [
      (["--fences", "10,many"], ["--fences 'many'", "1 to 1000000"]),
      (["--fences", "0"], ["--fences '0'", "1 to 1000000"]),
      (["--fixes", "9"], ["--fixes '9'", "10 to 10000000"]),
      (["--radius", "0"], ["--radius '0.0'", "1 to 100000"]),
      (["--wander", "1001"], ["--wander '1001.0'", "0 to 1000"]),
      (["--repeats", "21"], ["--repeats '21'", "1 to 20"]),
      (["--figure", "all"], ["--figure 'all'", "fixes, geometry, sampling, history, exits, reference"]),
      (["--figure", "sampling"], ["--figure sampling needs --track"]),
      (["--figure", "history"], ["--figure history needs --track"]),
      (["--figure", "fixes,exits"], ["--figure exits needs --log"]),
      (["--figure", "reference", "--track", "drive.nmea"], ["--figure reference needs --reference"]),
      (["--reference", "span.nmea"], ["--reference", "one --track", "not with 0"]),
      (["out.json"], ["out.json", "--json"]),
    ]
    for (arguments, parts) in cases {
      let error = #expect(throws: (any Error).self, "\(arguments)") {
        try BenchLocationCommand.parse(arguments)
      }
      let message = BenchLocationCommand.message(for: try #require(error))
      for part in parts { #expect(message.contains(part), "\(message)") }
    }
  }

  @Test func aTrackThatIsNoneIsNamed() throws {
    let command = try BenchLocationCommand.parse([
      "--track", "/proc/none/drive.nmea", "--fences", "1", "--fixes", "10",
    ])
    let error = #expect(throws: Failure.self) { try command.bench() }
    #expect("\(try #require(error))".contains("'/proc/none/drive.nmea' cannot be read"))
  }

  @Test func aLogThatIsNoneIsNamed() throws {
    let folder = try Folder()
    let file = try folder.file("day.json", "{\"metadata\":1}".utf8)
    let command = try BenchLocationCommand.parse(["--log", file, "--figure", "exits"])
    let error = #expect(throws: Failure.self) { try command.bench() }
    #expect("\(try #require(error))".contains("--log '\(file)'"))
  }

  @Test func numbersOfFencesCanBeRepeatedOrSeparated() throws {
    let command = try BenchLocationCommand.parse(["--fences", "1,20", "--fences", "300", "--fixes", "10"])
    #expect(command.fences == ["1,20", "300"] && command.fixes == 10)
  }
}
