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
      let hosted = try Hosted(.auto, key: key, deniesNetwork: true)
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
      .auto, catalog: ManifestCatalog(folders: [place.folder.path]), deniesNetwork: !isDenied)
    let output = try Output()
    let read = open(pipe, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    try #require(read >= 0)
    defer { close(read) }
    try hosted.host.start("app")
    try #require(dup2(read, output.read) >= 0)
    #expect(try await says(output) == (isDenied ? "error 1, lost, came" : "sent, came, came"))
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
    func limits(deniesNetwork: Bool) -> AppLimits {
      AppLimits(
        BackgroundLimits(devices: .standard), group: group.path, kept: [], deniesNetwork: deniesNetwork,
        storage: AppStorage(.none, key: "none", name: "app", group: nil))
    }
    let (denied, allowed) = (limits(deniesNetwork: true), limits(deniesNetwork: false))
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
    let hosted = try Hosted(.signals, devices: DeviceList("none"), deniesNetwork: true)
    let lack =
      "background is not kept from the network: that needs control groups of version 2 that may be written"
    #expect(hosted.host.notes == [lack])
    _ = try hosted.shell("exec sleep 600")
    #expect(hosted.entry()?.notes == [lack])
    try hosted.host.bringForward("app")
    #expect(hosted.entry()?.notes == [])
    try await hosted.end()
  }

  /// A socket stays of the group in which it was made.
  @Test func whoIsTakenInIsToldOfItsSockets() async throws {
    let program = try startProgram(["/bin/sleep", "600"])
    defer { kill(program.processIdentifier, SIGKILL) }
    let hosted = try Hosted(.auto, deniesNetwork: true)
    _ = try hosted.host.adopt(program.processIdentifier, name: "app")
    #expect(hosted.entry()?.notes.contains { $0.hasPrefix("sockets that it had before") } == true)
    try await hosted.end()
  }
}
