import Foundation
import TestSupport
import Testing

/// The programs of docs/guide, as they were built beside the tests.
@Suite(.bounded) struct GuideTests {
  /// What each of them prints.
  private static let printed: [String: [String]] = [
    "background": (1...5).map { "request \($0): 25 primes" } + [
      "request 6: 168 primes", "suspended, maintenance finished 0 parts", "maintenance: 1862 primes",
      "all in background: true",
    ],
    "sharing": [
      "the reader saw 1 or 2: true", "published: 1, visits: 2",
      "journal: 3 lines, in order",
    ],
    "files": ["hello, Ada", "archive: 3 lines, 14 bytes"],
    "caches": [
      "pictures kept: 6", "level: normal", "level: warning", "taken: 3 pictures, editor has 8 MiB",
      "made again: 3",
    ],
    "containers": ["User", "CPU limit", "Memory limit", "io_uring"].map {
      "\($0) is told of, with a remedy: true"
    } + ["workers: no more than CPUs", "written by threads, read by 1 worker", "kept: 4096 bytes"],
    "less": [
      "it says what each costs: true", "an answer, and 500500 from behind",
      "whether it has the class is told: true",
    ],
    "locations": [
      "enter, sure: true", "dwell, sure: true", "exit, sure: true", "the user is asked, and allows it",
      "runs: satellite", "maps was told: true",
    ],
    "policy": ["held: true"] + (0...2).map { "one asks beside \($0), begins: true" }
      + (1...3).reversed().map { "one of \($0) ends, lost: true" } + [
        "one asks beside 0, begins: false", "none runs, and none may begin", "mended: 7 steps",
      ],
    "reading": [
      "shutdown: jobsStillRunning", "ran: true, CPU time: true", "demoted: true", "workers replaced: true",
      "lock inversions: 0", "reported: true",
    ],
    "suspend": [
      "notes: in background, saves", "notes: hands over", "notes: hibernated, 9 MiB in use",
      "a task that was queued meanwhile sees [\"milk\", \"bread\"]",
    ],
    "reachable": [
      "phone: uploads, background", "phone: no more time for the download", "phone: woken by a call",
      "phone: suspended",
    ],
    "testing": [
      "backups: 24", "on the clock: 24 hours", "mail: made room, saved", "in its grace: background",
      "after it: suspended", "at 90000.000s: Write to Ada",
      "browser was terminated, suspended with 314.6 MB, because 104.9 MB had to go of 943.7 MB in use; among apps that were suspended, it held 25 % of memory or more; more than 32 MB are not hibernated.",
    ],
  ]

  /// Runs them to their end, which comes after a minute in any case.
  private func run(_ names: [String]) throws -> (status: Int32, lines: [String], errors: String) {
    let (status, output, errors) = try outcome(
      of: ["/usr/bin/env", "timeout", "-k", "5", "60", builtProgram("Guide")] + names)
    return (status, output.split(separator: "\n").map(String.init), errors)
  }

  @Test func eachPageHasAProgramThatPrintsWhatItShows() throws {
    let (status, lines, errors) = try run([])
    #expect(status == 0, "\(errors)")
    var found: [String: [String]] = [:]
    var name = ""
    for line in lines {
      if line.hasPrefix("# ") {
        name = String(line.dropFirst(2))
        found[name] = []
      } else {
        found[name, default: []].append(line)
      }
    }
    for (name, lines) in Self.printed { #expect(found[name] == lines, "\(name)") }
    #expect(Set(found.keys) == Set(Self.printed.keys))
    #expect(errors.contains("guide: apps=\"app\"") && errors.contains("jobs do not end"), "logged by reading")
    let pages = Self.printed.keys.map { "docs/guide/\($0).md" }
    let top = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../..")
    for page in pages {
      #expect(
        FileManager.default.fileExists(atPath: top.appending(path: page).standardizedFileURL.path), "\(page)")
    }
  }

  @Test func aProgramIsRunByItsName() throws {
    let one = try run(["testing"])
    #expect(one.status == 0, "\(one.errors)")
    #expect(one.lines == ["# testing"] + (Self.printed["testing"] ?? []))
    let none = try run(["cooking"])
    #expect(none.status == 64)
    #expect(none.lines.isEmpty)
    #expect(none.errors.contains("\"cooking\"") && none.errors.contains("caches"))
  }
}
