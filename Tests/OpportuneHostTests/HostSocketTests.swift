import Foundation
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneHost

@Suite(.bounded) struct HostSocketTests {
  @Test func requestsAreAnswered() async throws {
    let (place, hosted) = (try Place(), try Hosted(.signals))
    let host = hosted.host
    let socket = try HostSocket.open(at: place.path) { host }
    func ask(_ line: String) throws -> [String: Any] {
      let answer = try LocalSocket.ask(Data(line.utf8), at: place.path, within: .seconds(30))
      return try #require(try JSONSerialization.jsonObject(with: Data(answer.utf8)) as? [String: Any])
    }
    #expect(try ask(#"{"request":"apps"}"#)["ok"] as? Bool == true)
    let pid = try hosted.shell("exec sleep 600", name: "x")
    for (action, state) in [
      ("suspend", "suspended"), ("resume", "background"), ("hibernate", "hibernated"),
      ("front", "foreground"),
      ("terminate", "terminated"),
    ] {
      #expect(try ask(#"{"request":"\#(action)","name":"x"}"#)["ok"] as? Bool == true)
      let app = (try ask(#"{"request":"apps"}"#)["apps"] as? [[String: Any]])?.first
      // It may have ended by then.
      if action == "terminate", app == nil { continue }
      #expect(app?["state"] as? String == state)
      #expect(
        app.map { Set($0.keys) } == [
          "id", "pids", "state", "cgroup", "cpu_s", "memory_bytes", "memory_by", "kept_by", "notes",
          "hibernated_by", "kept_sockets", "scheduled",
        ])
      #expect(app?["pids"] as? [Int] == [Int(pid)])
    }
    try await hosted.end()
    withExtendedLifetime(socket) {}
  }

  /// The client of docs/examples, in a language that is not ours.
  @Test func aClientInPythonIsServed() async throws {
    let script = URL(filePath: #filePath).deletingLastPathComponent().appending(
      path: "../../docs/examples/python/host.py"
    ).standardizedFileURL.path
    guard FileManager.default.isExecutableFile(atPath: "/usr/bin/python3") else {
      print("skipped: there is no /usr/bin/python3")
      return
    }
    let (place, hosted) = (try Place(), try Hosted(.signals))
    let host = hosted.host
    let socket = try HostSocket.open(at: place.path) { host }
    let pid = try hosted.shell("exec sleep 600", name: "x")
    /// Its status and what it has printed.
    func run(_ words: String...) throws -> (status: Int32, output: String, errors: String) {
      try outcome(
        of: ["/usr/bin/python3", script] + words, environment: ["OPPORTUNE_SOCKET": place.path])
    }
    #expect(try run("apps").output.hasPrefix("x: background, 1 processes"))
    #expect(try run("front", "x").status == 0 && hosted.entry("x")?.state == "foreground")
    #expect(try run("keep", "x", "seconds=600", "reason=a test").status == 0)
    #expect(hosted.entry("x")?.keptBy.contains { $0.contains("a test") } == true)
    let refused = try run("suspend", "nobody")
    #expect(refused.status == 1 && refused.errors.contains("nobody"))
    #expect(try run().status == 1)
    #expect(hosted.entry("x")?.pids == [pid])
    try await hosted.end()
    withExtendedLifetime(socket) {}
  }

  @Test func malformedLinesAreRefused() async throws {
    let (place, hosted) = (try Place(), try Hosted(.signals))
    let host = hosted.host
    let socket = try HostSocket.open(at: place.path) { host }
    let pid = try hosted.shell("exec sleep 600", name: "x")
    var lines = [
      "", "{", "null", "[]", "7", #"{"request":"fly"}"#, #"{"request":7}"#, #"{"request":"adopt"}"#,
      #"{"request":"suspend"}"#, #"{"request":"suspend","name":null}"#,
      #"{"request":"suspend","name":"none"}"#, #"{"request":"suspend","name":["x"]}"#,
      #"{"request":"hibernate"}"#, #"{"request":"hibernate","name":"none"}"#,
      #"{"request":"adopt","name":"y","pid":1}"#, #"{"request":"adopt","name":"y","pid":-7}"#,
      #"{"request":"adopt","name":"y","pid":99999999999}"#,
      #"{"request":"adopt","name":"../y","pid":\#(pid)}"#, #"{"request":"adopt","pid":1}"#,
      #"{"request":"adopt","pid":\#(pid)}"#, #"{"request":"suspend","name":"x","locks":"perhaps"}"#,
      #"{"request":"keep"}"#, #"{"request":"keep","name":"none"}"#,
      #"{"request":"keep","name":"x","seconds":0}"#, #"{"request":"keep","name":"x","seconds":-5}"#,
      #"{"request":"keep","name":"x","seconds":1e300}"#, #"{"request":"keep","name":"x","seconds":"1h"}"#,
      #"{"request":"keep","name":"x","reason":"\#(String(repeating: "x", count: 201))"}"#,
      String(repeating: "[", count: 10_000), "\u{0}\u{1}", #"{"request":"apps""#,
    ]
    var random = SplitMix64(seed: 19)
    let request = Array(#"{"request":"suspend","name":"x","pid":4711}"#.utf8)
    for _ in 0..<300 {
      var bytes = request
      let place = Int(random.next() % UInt64(bytes.count))
      bytes[place] = UInt8(truncatingIfNeeded: random.next())
      if place < 11, bytes != request {
        lines.append(String(decoding: bytes.map { $0 == 10 ? 32 : $0 }, as: UTF8.self))
      }
    }
    for line in lines {
      let answer = try LocalSocket.ask(Data(line.utf8), at: place.path, within: .seconds(30))
      let decoded = try JSONDecoder().decode(HostAnswer.self, from: Data(answer.utf8))
      #expect(!decoded.ok, "\(line)")
      #expect(decoded.error?.isEmpty == false, "\(line)")
    }
    let long = Data(repeating: UInt8(ascii: "x"), count: LocalSocket.longestLine + 1)
    let answer = try LocalSocket.ask(long, at: place.path, within: .seconds(30))
    #expect(answer.contains("longer than"))
    #expect(hosted.entry("x")?.state == "background")
    try await hosted.end()
    withExtendedLifetime(socket) {}
  }

  @Test func aClientThatNeverReadsDelaysNobody() async throws {
    let (place, hosted) = (try Place(), try Hosted(.signals))
    let host = hosted.host
    let server = try HostSocket.open(at: place.path) { host }
    let client = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(client) }
    let address = try #require(UnixSocketAddress(place.path))
    #expect(address.withPointer { connect(client, $0, $1) } == 0)
    _ = fcntl(client, F_SETFL, O_NONBLOCK)
    // Until the kernel takes no more, since the host waits for its answers to be read.
    let line = Array((#"{"request":"nothing of the kind"}"# + "\n").utf8)
    var sent = 0
    while sent < 200_000, send(client, line, line.count, Int32(MSG_NOSIGNAL)) > 0 { sent += 1 }
    let answer = try HostRequest(.apps).send(to: place.path, within: .seconds(30))
    #expect(answer.ok)
    try await hosted.end()
    withExtendedLifetime(server) {}
  }

  @Test func thePathFollowsTheUser() {
    #expect(HostSocket.standardPath(user: 0, environment: [:]) == "/run/opportune/host.sock")
    let own = HostSocket.standardPath(user: 7, environment: ["XDG_RUNTIME_DIR": "/run/user/7"])
    #expect(own == "/run/user/7/opportune/host.sock")
    #expect(HostSocket.standardPath(user: 7, environment: [:]) == nil)
    #expect(HostSocket.standardPath(user: 7, environment: ["XDG_RUNTIME_DIR": "here"]) == nil)
  }

  @Test(arguments: [
    ("/usr/bin/make", "make"), ("./a b.sh", "a_b.sh"), ("...", "app"), ("", "app"), ("/x/-v", "v"),
    ("g++", "g__"),
  ]) func aNameIsThatOfTheFile(path: String, name: String) {
    #expect(AppName.derived(from: path) == name)
  }
}
