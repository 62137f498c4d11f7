import Foundation
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneHost

/// Packets of real programs in background are dropped. The program has a network of its own, whose other end
/// it is as well, so that nothing leaves the machine.
@Suite(.bounded) struct BackgroundNetworkTests {
  /// Each line says what became of a datagram sent, of one that came, and of one to itself.
  private static let talking = """
    import fcntl, os, select, socket, struct, time
    tunnel = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tunnel, 0x400454CA, struct.pack("16sH22x", b"probe", 0x1001))
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    def address(request, text):
      own_address = struct.pack("16sHH4s16x", b"probe", socket.AF_INET, 0, socket.inet_aton(text))
      fcntl.ioctl(own, request, own_address)
    address(0x8916, "10.9.8.1")
    address(0x891C, "255.255.255.0")
    for name in [b"probe", b"lo"]: fcntl.ioctl(own, 0x8914, struct.pack("16sH22x", name, 0x41))
    own.bind(("", 7777))
    def checksum(bytes):
      total = sum(struct.unpack("!10H", bytes))
      while total >> 16: total = (total & 0xFFFF) + (total >> 16)
      return 0xFFFF - total
    def packet(text):
      data = struct.pack("!HHHH", 9, 7777, 8 + len(text), 0) + text
      ends = socket.inet_aton("10.9.8.2") + socket.inet_aton("10.9.8.1")
      head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(data), 0, 0, 64, 17, 0) + ends
      return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + data
    def left():
      while select.select([tunnel], [], [], 0)[0]:
        found = os.read(tunnel, 2000)
        if found[9] == 17 and found[0] >> 4 == 4: return True
      return False
    def comes(text):
      while select.select([own], [], [], 0.1)[0]:
        if own.recv(100) == text: return "came"
      return "lost"
    number = 0
    while True:
      number += 1
      try:
        own.sendto(b"out", ("10.9.8.2", 9))
        out = "sent" if left() else "lost"
      except OSError as error: out = "error %d" % error.errno
      os.write(tunnel, packet(b"in %d" % number))
      arrived = comes(b"in %d" % number)
      own.sendto(b"lo %d" % number, ("127.0.0.1", 7777))
      print(out, arrived, comes(b"lo %d" % number), sep=", ", flush=True)
      time.sleep(0.01)
    """
  private static let unshare = ["/usr/bin/unshare", "/bin/unshare"].first(where: SystemFile.exists)
  static let isPossible: Bool = {
    guard Backends.hasLimits, let unshare, let python = Backends.python else { return false }
    let answer = try? outcome(of: [
      unshare, "-n", python, "-c", #"import os; os.open("/dev/net/tun", os.O_RDWR)"#,
    ])
    return answer?.status == 0
  }()
  static let why: Comment =
    "BPF programs cannot be attached here, or there is no unshare, Python or /dev/net/tun"

  private func command() throws -> [String] {
    [try #require(Self.unshare), "-n", try #require(Backends.python), "-c", Self.talking]
  }

  private func says(_ output: Output) async throws -> String {
    output.forget()
    return try await output.lines(3)[2]
  }

  // R-NET-01, R-NET-08
  @Test(.enabled(if: isPossible, why)) func packetsGoInFrontAlone() async throws {
    let (key, output) = (Hosted.newKey(), try Output())
    do {
      let hosted = try Hosted(.auto, key: key, network: .denied)
      _ = try hosted.host.launch(try command(), name: "app", descriptors: [-1, output.written, -1])
      #expect(try await output.lines(1) == ["error 1, lost, came"])
      try hosted.host.bringForward("app")
      #expect(try await says(output) == "sent, came, came")
      _ = try hosted.shell("exec sleep 600", name: "other", foreground: true)
      #expect(try await says(output) == "error 1, lost, came")
      try hosted.host.suspend("app")
      try hosted.host.resume("app")
      #expect(try await says(output) == "error 1, lost, came")
      #expect(hosted.entry()?.notes == [])
      // Nothing stays dropped without a host.
      hosted.host.stop()
      #expect(try await says(output) == "sent, came, came")
    }
    let next = try Hosted(.auto, key: key)
    #expect(next.host.apps().count == 2)
    #expect(try await says(output) == "sent, came, came")
    try await next.end()
  }

  // R-NET-01
  @Test(.enabled(if: isPossible, why), arguments: [false, true])
  func theManifestGoesBeforeTheHost(isDenied: Bool) async throws {
    let place = try Place()
    let pipe = place.folder.path + "/pipe"
    try #require(mkfifo(pipe, 0o600) == 0)
    try writeManifest(
      ["/bin/sh", "-c", "exec \"$0\" \"$@\" > '\(pipe)'"] + command(),
      ["OpportuneNetwork": isDenied ? "deny" : "allow"], in: place.folder.path)
    let hosted = try Hosted(
      .auto, catalog: ManifestCatalog(folders: [place.folder.path]), network: isDenied ? .none : .denied)
    let output = try Output()
    let read = open(pipe, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    try #require(read >= 0)
    defer { close(read) }
    try hosted.host.start("app")
    try #require(dup2(read, output.read) >= 0)
    #expect(try await says(output) == (isDenied ? "error 1, lost, came" : "sent, came, came"))
    try await hosted.end()
  }

  @Test func aLimitIsReadAndWrittenAlike() throws {
    for text in ["allow", "deny", "500K", "64K", "1024G", "65537"] {
      #expect(NetworkLimit(text)?.description == text)
    }
    #expect(NetworkLimit("allow") == NetworkLimit.none && NetworkLimit("deny") == .denied)
    for text in ["", "none", "Deny", "63K", "1025G", "-1M"] { #expect(NetworkLimit(text) == nil, "\(text)") }
    let (status, said) = try told(
      by: ["host", "--socket", "/nowhere/host.sock", "--background-network=7"])
    #expect(status == 64)
    #expect(said.contains("--background-network is '7': expected allow, deny, or bytes a second"), "\(said)")
  }

  // MARK: A rate

  /// Fetches half a megabyte again and again, and says of each how many seconds it took.
  private static let fetching = """
    import sys, time, urllib.request
    while True:
      begun = time.monotonic()
      try: size = len(urllib.request.urlopen("http://%s:8000/page" % sys.argv[1]).read())
      except OSError: continue
      if size == 512 << 10: print(time.monotonic() - begun, flush=True)
    """

  /// With a wire to the other.
  private static let near = "ip link add wire type veth peer name wire netns $0 && " + up("10.9.8.1")
  private static func up(_ address: String) -> String {
    "ip address add \(address)/24 dev wire && ip link set wire up"
  }

  static let hasWire: Bool = {
    guard isPossible, let unshare else { return false }
    let answer = try? outcome(of: [
      unshare, "-n", "/bin/sh", "-c", "command -v nsenter && ip link add wire type veth peer name other",
    ])
    return answer?.status == 0
  }()
  static let whyNoWire: Comment = "\(why), or no ip, nsenter or veth"

  /// A server of files and a program that fetches from it on the other side of a wire, one of them an app.
  // R-NET-02, R-NET-08
  @Test(.enabled(if: hasWire, whyNoWire), arguments: [true, false])
  func aRateHoldsWhatIsSentAndWhatComes(appServes: Bool) async throws {
    let python = try #require(Backends.python)
    let place = try Place()
    let page = Data(repeating: 7, count: 512 << 10)
    try page.write(to: place.folder.appending(path: "page"))
    // Each in a network of its own, for the time of the test.
    var programs: [Process] = []
    defer {
      for program in programs { kill(program.processIdentifier, SIGKILL) }
    }
    for _ in 0..<2 { programs.append(try startProgram([try #require(Self.unshare), "-n", "sleep", "600"])) }
    let sides = programs.map { "\($0.processIdentifier)" }
    func network(_ process: String) -> String? {
      try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(process)/ns/net")
    }
    func on(_ side: Int, _ words: [String]) -> [String] {
      ["/usr/bin/nsenter", "--net=/proc/\(sides[side])/ns/net"] + words
    }
    for side in sides { try await eventually("its network") { network(side) != network("self") } }
    #expect(try outcome(of: on(0, ["sh", "-c", Self.near, sides[1]])).status == 0)
    #expect(try outcome(of: on(1, ["sh", "-c", Self.up("10.9.8.2")])).status == 0)

    let serving = [python, "-m", "http.server", "8000", "--directory", place.folder.path]
    let fetching = [python, "-c", Self.fetching, appServes ? "10.9.8.1" : "10.9.8.2"]
    let hosted = try Hosted(.auto, network: try #require(NetworkLimit("512K")))
    let seconds = try Output()
    programs.append(
      try startProgram(on(1, appServes ? fetching : serving), appServes ? seconds : nil, isQuiet: true))
    _ = try hosted.host.launch(
      on(0, appServes ? serving : fetching), name: "app",
      descriptors: appServes ? [-1, -1, -1] : [-1, seconds.written, -1])
    /// Of the first that began when all was as it is now.
    func fetch() async throws -> Double {
      seconds.forget()
      return try #require(Double(try await seconds.lines(2)[1]))
    }
    /// Bytes that the other side has put on the wire.
    func sent() throws -> Int {
      let all = try #require(SystemFile.text("/proc/\(sides[1])/net/dev"))
      let line = try #require(all.split(separator: "\n").first { $0.contains("wire:") })
      return try #require(Int(line.split(separator: " ")[9]))
    }
    // Less what may come at once.
    let least = Double(page.count - (192 << 10)) / Double(512 << 10)
    let slow = try await fetch()
    #expect(slow > least)
    #expect(hosted.entry()?.notes == [])
    if !appServes {
      // Who sends has slowed down: else most would be dropped, and sent anew.
      let before = try sent()
      _ = try await seconds.lines(1)
      #expect(try sent() - before < 2 * page.count)
    }
    try hosted.host.bringForward("app")
    #expect(try await fetch() < slow / 2)
    _ = try hosted.shell("exec sleep 600", name: "other", foreground: true)
    #expect(try await fetch() > least)
    try await hosted.end()
  }

  /// Frozen is gentle to connections, dropped is not.
  // R-NET-01
  @Test(.enabled(if: Backends.hasLimits, Backends.whyNoLimits)) func whatIsSuspendedIsNotDropped() throws {
    let tree = try ControlGroupTree(key: Hosted.newKey())
    let group = try tree.group("app")
    defer {
      group.remove()
      tree.remove()
    }
    func limits(network: NetworkLimit) -> AppLimits {
      AppLimits(
        BackgroundLimits(devices: .standard), group: group.path, kept: [], network: network,
        storage: AppStorage(.none, key: "none", name: "app", group: nil))
    }
    let (denied, allowed) = (limits(network: .denied), limits(network: .none))
    for (state, isDropped) in [
      (LifecycleState.background, true), (.suspended, false), (.background, true), (.active, false),
      (.background, true), (.terminated, false),
    ] {
      let restrictions = Restrictions(
        state, receivesInput: true, audio: nil, hasFullPower: false, policy: RestrictionPolicy())
      for one in [denied, allowed] { one.set(restrictions, members: { [] }) }
      #expect(denied.dropsPackets == isDropped, "\(state)")
      #expect(!allowed.dropsPackets && denied.notes == [] && allowed.notes == [], "\(state)")
    }
  }

  @Test func withoutControlGroupsItIsTold() async throws {
    let hosted = try Hosted(.signals, devices: DeviceList("none"), network: .denied)
    let lack =
      "background is not kept from the network: that needs control groups of version 2 that may be written"
    #expect(hosted.host.notes == [lack])
    _ = try hosted.shell("exec sleep 600")
    #expect(withoutClasses(hosted.entry()?.notes) == [lack])
    try hosted.host.bringForward("app")
    #expect(withoutClasses(hosted.entry()?.notes) == [])
    try await hosted.end()
  }

  /// A socket stays of the group in which it was made.
  @Test func whoIsTakenInIsToldOfItsSockets() async throws {
    let program = try startProgram(["/bin/sleep", "600"])
    defer { kill(program.processIdentifier, SIGKILL) }
    let hosted = try Hosted(.auto, network: .denied)
    _ = try hosted.host.adopt(program.processIdentifier, name: "app")
    #expect(hosted.entry()?.notes.contains { $0.hasPrefix("sockets that it had before") } == true)
    try await hosted.end()
  }
}
