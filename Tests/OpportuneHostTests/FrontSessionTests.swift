import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// What displays send, without a display: connections of bytes alone.
@Suite(.bounded) struct FrontSessionTests {
  // MARK: X11

  /// A server as the session needs it: two screens, windows with processes.
  private struct Server {
    static let roots: [UInt32] = [0x100, 0x200]
    var active: UInt32 = 0
    /// What X-Resource knows; `nil`: there is no such extension.
    var processes: [UInt32: UInt32]? = [:]
    /// What windows say of themselves.
    var claims: [UInt32: (pid: UInt32, machine: String)] = [:]
    var isFollowed = false
    private var isSetUp = false
    private var sequence: UInt16 = 0

    static func greeting() -> [UInt8] {
      var body = ByteWriter()
      for _ in 0..<4 { body.four(0) }
      body.two(5)  // the vendor's name
      body.two(65535)
      body.byte(2)
      body.byte(1)
      body.all([0, 0, 32, 32, 8, 255])
      body.four(0)
      body.all(Array("abcde".utf8))
      body.pad()
      body.all([24, 32, 32, 0, 0, 0, 0, 0])  // a format
      for root in roots {
        body.four(root)
        for _ in 0..<8 { body.four(0) }
        body.all([0, 0, 24, 1])
        body.all([24, 0, 2, 0, 0, 0, 0, 0])  // a depth with two visuals
        body.all([UInt8](repeating: 7, count: 48))
      }
      var out = ByteWriter()
      out.all([1, 0, 11, 0, 0, 0])
      out.two(UInt16(body.bytes.count / 4))
      out.all(body.bytes)
      return out.bytes
    }

    private func reply(_ detail: UInt8, _ words: [UInt32], _ extra: [UInt8] = []) -> [UInt8] {
      var more = ByteWriter()
      more.all(extra)
      more.pad()
      var out = ByteWriter()
      out.byte(1)
      out.byte(detail)
      out.two(sequence)
      out.four(UInt32(more.bytes.count / 4))
      for place in 0..<6 { out.four(place < words.count ? words[place] : 0) }
      out.all(more.bytes)
      return out.bytes
    }

    private func error() -> [UInt8] {
      var out = ByteWriter()
      out.all([0, 3])
      out.two(sequence)
      for _ in 0..<7 { out.four(0) }
      return out.bytes
    }

    private func number(_ value: UInt32) -> [UInt8] {
      var out = ByteWriter()
      out.four(value)
      return out.bytes
    }

    static func changed(_ window: UInt32, _ atom: UInt32) -> [UInt8] {
      var out = ByteWriter()
      out.all([28, 0, 9, 0])
      out.four(window)
      out.four(atom)
      for _ in 0..<5 { out.four(0) }
      return out.bytes
    }

    mutating func answer(_ bytes: [UInt8]) -> [UInt8] {
      var result: [UInt8] = []
      var rest = ByteReader(bytes)
      if !isSetUp {
        guard !bytes.isEmpty else { return [] }
        isSetUp = true
        let length = 12 + (Int(rest.two(6)) + 3) / 4 * 4 + (Int(rest.two(8)) + 3) / 4 * 4
        rest = ByteReader(rest.bytes.dropFirst(length))
        result += Self.greeting()
      }
      while rest.count >= 4 {
        sequence &+= 1
        let one = ByteReader(rest.part(0, Int(rest.two(2)) * 4))
        switch one.byte(0) {
        case 16:
          let name = String(decoding: one.part(8, Int(one.two(4))), as: UTF8.self)
          result += reply(0, [name == X11Request.activeWindow ? 500 : 501])
        case 98: result += reply(0, [processes == nil ? 0 : 0x9001])
        case 0x90 where one.byte(1) == 0: result += reply(0, [1 | 2 << 16])
        case 0x90:
          if let pid = processes?[one.four(8)] {
            result += reply(0, [1], number(one.four(8)) + number(2) + number(4) + number(pid))
          } else {
            result += error()
          }
        case 2: isFollowed = one.four(4) == Self.roots[1] && one.four(12) == 1 << 22
        case 20:
          let (window, atom) = (one.four(4), one.four(8))
          if atom == 500, window == Self.roots[1] {
            result += reply(32, [33, 0, 1], number(active))
          } else if let claim = claims[window] {
            result +=
              atom == 501
              ? reply(32, [6, 0, 1], number(claim.pid))
              : reply(8, [31, 0, UInt32(claim.machine.utf8.count)], Array(claim.machine.utf8))
          } else {
            result += error()
          }
        default: Issue.record("an unknown request \(one.byte(0))")
        }
        rest = ByteReader(rest.bytes.dropFirst(one.count))
      }
      return result
    }
  }

  /// Both talk until neither says anything, in parts of a size.
  private func talk(
    _ session: inout X11Session, _ server: inout Server, _ first: [UInt8] = [], part: Int = 1 << 20
  ) throws -> [FrontReport] {
    var reports: [FrontReport] = []
    var said = first
    while true {
      while !said.isEmpty {
        reports += try session.receive(Array(said.prefix(part)))
        said.removeFirst(min(part, said.count))
      }
      said = server.answer(session.takeOutput())
      if said.isEmpty { return reports }
    }
  }

  private func session() -> X11Session { X11Session(screen: 1, cookie: nil, host: Array("here".utf8)) }

  @Test(arguments: [1, 7, 32, 1 << 20]) func theServersWordIsTheProcess(part: Int) throws {
    var (session, server) = (session(), Server())
    (server.active, server.processes) = (0x7000, [0x7000: 70, 0x8000: 80])
    server.claims = [0x7000: (pid: 1, machine: "here")]
    #expect(try talk(&session, &server, part: part) == [.ready, .focus(70)])
    #expect(server.isFollowed)
    // The same window, another property, another root: nothing new.
    for event in [(Server.roots[1], 500), (Server.roots[1], 501), (Server.roots[0], 500)]
      as [(UInt32, UInt32)]
    {
      #expect(try talk(&session, &server, Server.changed(event.0, event.1), part: part).isEmpty)
    }
    let change = Server.changed(Server.roots[1], 500)
    server.active = 0x8000
    #expect(try talk(&session, &server, change, part: part) == [.focus(80)])
    server.active = 0
    #expect(try talk(&session, &server, change, part: part) == [.focus(nil)])
    // One that is gone by now.
    server.active = 0x9000
    #expect(try talk(&session, &server, change, part: part) == [.focus(nil)])
  }

  @Test func withoutXResourceTheWindowsWordCounts() throws {
    var (session, server) = (session(), Server())
    (server.active, server.processes) = (0x7000, nil)
    server.claims = [
      0x7000: (pid: 70, machine: "here"), 0x8000: (pid: 80, machine: "elsewhere"),
      0x9000: (pid: 0, machine: "here"),
    ]
    #expect(try talk(&session, &server) == [.ready, .focus(70)])
    let change = Server.changed(Server.roots[1], 500)
    for window in [0x8000, 0x9000, 0xa000] as [UInt32] {
      server.active = window
      #expect(try talk(&session, &server, change) == [.focus(nil)])
    }
  }

  @Test func aSlowAnswerIsOfNoMoreUse() throws {
    var (session, server) = (session(), Server())
    server.processes = [0x7000: 70, 0x8000: 80]
    #expect(try talk(&session, &server) == [.ready, .focus(nil)])
    let change = Server.changed(Server.roots[1], 500)
    server.active = 0x7000
    #expect(try session.receive(change).isEmpty)
    let window = server.answer(session.takeOutput())
    #expect(try session.receive(window).isEmpty)
    let process = server.answer(session.takeOutput())
    // It moves on before the process is told.
    server.active = 0x8000
    #expect(try session.receive(change).isEmpty)
    let next = server.answer(session.takeOutput())
    #expect(try session.receive(next + process).isEmpty)
    #expect(try talk(&session, &server) == [.focus(80)])
  }

  @Test func aServerMayRefuse() throws {
    var session = session()
    #expect(throws: FrontError(.refused("No protocol specified"))) {
      _ = try session.receive([0, 21, 11, 0, 0, 0, 6, 0] + Array("No protocol specified\n\0\0".utf8))
    }
    var other = X11Session(screen: 2, cookie: nil, host: [])
    #expect(throws: FrontError(.refused("it has no screen 2"))) { _ = try other.receive(Server.greeting()) }
  }

  /// Whatever comes is taken, waited for or refused; nothing is read past its end.
  @Test func anyBytesAreTaken() throws {
    var random = SplitMix64(seed: 11)
    let greeting = Server.greeting()
    for round in 0..<4000 {
      var session = session()
      var bytes = greeting
      if round % 2 == 0 {
        bytes[Int(random.next() % UInt64(bytes.count))] = UInt8(truncatingIfNeeded: random.next())
      }
      for _ in 0..<random.next() % 20 {
        bytes += (0..<32).map { _ in UInt8(truncatingIfNeeded: random.next() >> (random.next() % 60)) }
      }
      do throws(FrontError) {
        for report in try session.receive(bytes) {
          if case .focus(let pid?) = report { #expect(pid > 0) }
        }
      } catch {
        #expect(!error.description.isEmpty)
      }
    }
    var large = session()
    _ = try large.receive(greeting)
    #expect(throws: FrontError.self) {
      _ = try large.receive([1, 0, 1, 0, 255, 255, 255, 127] + [UInt8](repeating: 0, count: 24))
    }
  }

  @Test func displaysAreRead() throws {
    #expect(X11Display(":0")?.number == 0)
    #expect(X11Display("unix:12.3")?.number == 12)
    #expect(X11Display(":12.3")?.screen == 3)
    for bad in ["", ":", "0", "host:0", ":0.", ":x", ":-1", ":1.2.3", ":999999", "/tmp/s:0"] {
      #expect(X11Display(bad) == nil, "\(bad)")
    }
  }

  @Test func cookiesAreFound() {
    func counted(_ text: String) -> [UInt8] { [0, UInt8(text.utf8.count)] + Array(text.utf8) }
    func entry(_ family: [UInt8], _ host: String, _ display: String, _ data: String, _ name: String? = nil)
      -> [UInt8]
    {
      family + counted(host) + counted(display) + counted(name ?? "MIT-MAGIC-COOKIE-1") + counted(data)
    }
    let file =
      entry([1, 0], "elsewhere", "0", "a") + entry([0, 0], "here", "0", "tcp")
      + entry([1, 0], "here", "1", "b")
      + entry([1, 0], "here", "0", "c", "XDM-AUTHORIZATION-1") + entry([1, 0], "here", "0", "d")
      + entry([255, 255], "", "", "e")
    func found(_ number: Int, _ host: String, _ bytes: [UInt8]) -> String? {
      X11Authority.cookie(of: number, host: Array(host.utf8), in: bytes).map {
        String(decoding: $0.data, as: UTF8.self)
      }
    }
    #expect(found(0, "here", file) == "d")
    #expect(found(1, "here", file) == "b")
    #expect(found(0, "elsewhere", file) == "a")
    #expect(found(9, "nowhere", file) == "e")
    for count in 0..<file.count { #expect(found(9, "nowhere", Array(file[..<count])) == nil) }
  }

  // MARK: sway

  private func message(_ kind: UInt32, _ text: String) -> [UInt8] {
    var out = ByteWriter()
    out.all(Array("i3-ipc".utf8))
    out.four(UInt32(text.utf8.count))
    out.four(kind)
    out.all(Array(text.utf8))
    return out.bytes
  }

  private func tree(_ focused: Int, visible: Int = 70) -> [UInt8] {
    let windows = [70, 80].map {
      #"{"pid":\#($0),"focused":\#($0 == focused),"visible":\#($0 == visible),"nodes":[],"floating_nodes":[]}"#
    }
    return message(
      4,
      #"{"focused":false,"nodes":[{"nodes":[\#(windows[0])],"floating_nodes":[\#(windows[1])],"focused":false}]}"#
    )
  }

  private static let treeRequest = Array("i3-ipc".utf8) + [0, 0, 0, 0, 4, 0, 0, 0]
  private static let window: UInt32 = 0x8000_0003

  @Test(arguments: [1, 5, 1 << 20]) func swayTellsProcesses(part: Int) throws {
    var session = SwaySession()
    func hear(_ bytes: [UInt8]) throws -> [FrontReport] {
      var (rest, reports) = (bytes, [FrontReport]())
      while !rest.isEmpty {
        reports += try session.receive(Array(rest.prefix(part)))
        rest.removeFirst(min(part, rest.count))
      }
      return reports
    }
    #expect(session.takeOutput() == message(2, #"["window","workspace"]"#))
    #expect(try hear(message(2, #"{"success": true}"#)) == [.ready])
    #expect(session.takeOutput() == Self.treeRequest)
    #expect(try hear(tree(80)) == [.focus(80), .shown([70])])
    #expect(try hear(message(Self.window, #"{"change":"focus","container":{"pid":70}}"#)) == [.focus(70)])
    #expect(try hear(message(Self.window, #"{"change":"title","container":{"pid":80}}"#)).isEmpty)
    #expect(session.takeOutput().isEmpty)
    // What has the focus afterwards is looked for, and only the last answer counts.
    #expect(try hear(message(Self.window, #"{"change":"close","container":{"pid":70}}"#)).isEmpty)
    #expect(try hear(message(0x8000_0000, #"{"change":"focus","current":{"focus":[]},"old":null}"#)).isEmpty)
    #expect(try hear(message(Self.window, #"{"change":"focus","container":{"pid":70}}"#)).isEmpty)
    #expect(session.takeOutput() == Self.treeRequest + Self.treeRequest + Self.treeRequest)
    #expect(try hear(tree(80) + tree(80) + tree(0)) == [.focus(nil)])
    // What is shown may change with all of these.
    for (place, change) in ["move", "floating", "fullscreen_mode"].enumerated() {
      #expect(try hear(message(Self.window, #"{"change":"\#(change)","container":{"pid":70}}"#)).isEmpty)
      #expect(session.takeOutput() == Self.treeRequest)
      let shown = place % 2 == 0 ? 80 : 70
      #expect(try hear(tree(70, visible: shown)) == [.focus(70), .shown([Int32(shown)])])
    }
  }

  @Test func onlyTheLastFocusOfManyCounts() {
    let many: [FrontEvent] = [
      .followed("x"), .focus(.window(1)), .shown([1]), .focus(nil), .shown([2]), .focus(.window(2)),
      .lost("y"),
    ]
    #expect(FrontEvent.latest(many) == [.followed("x"), .shown([2]), .focus(.window(2)), .lost("y")])
    #expect(FrontEvent.latest([.focus(nil)]) == [.focus(nil)])
    #expect(FrontEvent.latest([]).isEmpty)
  }

  @Test func swayMayBeWrong() throws {
    for bad in [
      message(2, #"{"success": false}"#), message(2, "{}"), message(4, "["), message(Self.window, "1"),
      Array("i3-ipd".utf8) + [UInt8](repeating: 0, count: 8),
      Array("i3-ipc".utf8) + [255, 255, 255, 255, 0, 0, 0, 0],
    ] {
      #expect(throws: FrontError.self) {
        var session = SwaySession()
        _ = try session.receive(bad)
      }
    }
  }

  @Test func namesOfSwaysSockets() {
    let own = geteuid()
    #expect(SwayFront.process(in: "sway-ipc.\(own).4711.sock") == 4711)
    for bad in [
      "sway-ipc.\(own)..sock", "sway-ipc.\(own).sock", "sway-ipc.\(own + 1).4711.sock",
      "sway-ipc.\(own).x.sock",
      "sway-ipc.\(own).-4.sock", "i3",
    ] { #expect(SwayFront.process(in: bad) == nil, "\(bad)") }
  }

  // MARK: The choice

  @Test func theSourceIsChosen() throws {
    func choice(_ text: String, _ environment: [String: String] = [:]) throws(ProcessHostError) -> FrontChoice
    {
      try FrontChoice(text, environment: environment)
    }
    let both = ["DISPLAY": ":3", "SWAYSOCK": "/run/sway"]
    #expect(try choice("auto", both).source?.name == "sway")
    #expect(try choice("auto", both).display?.number == 3)
    #expect(try choice("auto", ["DISPLAY": ":3"]).source?.name == "the X display :3")
    #expect(try choice("auto").source == nil)
    #expect(try choice("auto").note != nil)
    #expect(try choice("auto", ["DISPLAY": "far:3"]).note?.contains("far:3") == true)
    #expect(try choice("none", both).source == nil)
    #expect(try choice("none", both).display == nil)
    #expect(try choice("x11", both).source?.name == "the X display :3")
    #expect(try choice("x11=:4", both).source?.name == "the X display :4")
    func folder(_ choice: FrontChoice) -> String? { (choice.source as? SwayFront)?.folder }
    #expect(folder(try choice("sway=/a/b")) == "/a")
    #expect(folder(try choice("sway", ["XDG_RUNTIME_DIR": "/run/user/1"])) == "/run/user/1")
    #expect(try choice("terminal", both).source?.name == "the terminals of this user")
    #expect(try choice("terminal", both).display?.number == 3)
    #expect(try choice("terminal=/dev/pts/99999").source?.name == "the terminal /dev/pts/99999")
    for bad in [
      "", "x11", "x11=far:0", "sway", "sway=a", "auto=1", "none=", "kde", "terminal=", "terminal=pts/1",
      "terminal=/tmp/x", "terminal=/dev/", "terminal=/dev/pts", "terminal=/dev/../etc/passwd",
      "terminal=/dev/null", "terminal=/dev/tty", "terminal=/dev/ptmx",
    ] {
      #expect(throws: ProcessHostError.self, "\(bad)") { _ = try choice(bad) }
    }
  }
}
