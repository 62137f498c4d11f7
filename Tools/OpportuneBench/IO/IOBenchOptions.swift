import Glibc

/// What `opportune bench io` is to measure.
package struct IOBenchOptions: Sendable {
  package enum Figure: String, Sendable, CaseIterable {
    case storage, cost, fio, echo, rates
  }

  package var figures: [Figure]
  /// Of each point and repeat.
  package var seconds: Double
  package var repeats: Int
  /// Where the test file goes; must be on the device that is meant, and know O_DIRECT.
  package var folder: String
  /// Of the test file, in MiB.
  package var fileMebibytes: Int
  /// The program of SwiftNIO's echo server; `nil` leaves it out.
  package var echoRival: String?

  package init(
    figures: [String] = [], seconds: Double = 30, repeats: Int = 3, folder: String = "/var/tmp",
    fileMebibytes: Int = 1024, echoRival: String? = nil
  ) throws(BenchError) {
    self.figures = try BenchError.figures(figures)
    self.seconds = try BenchError.check(seconds, "--seconds", 0.2...600)
    self.repeats = try BenchError.check(repeats, "--repeats", 1...20)
    self.fileMebibytes = try BenchError.check(fileMebibytes, "--file-mebibytes", 16...65_536)
    self.folder = try BenchError.checkFolder(folder)
    if let echoRival, access(echoRival, X_OK) != 0 {
      throw .invalid("--echo-rival", echoRival, expected: "a program, as `swift build` in bench/ makes it")
    }
    self.echoRival = echoRival
  }
}
