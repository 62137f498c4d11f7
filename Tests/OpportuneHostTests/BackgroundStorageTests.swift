import Foundation
import OpportuneApps
import OpportuneBase
import TestSupport
import Testing

@testable import OpportuneHost

/// What apps in background read and write is held to a rate.
@Suite(.bounded) struct BackgroundStorageTests {
  // MARK: Rates

  // R-DISK-02
  @Test func aRateIsReadAndWrittenAlike() throws {
    for (text, rate) in [
      ("allow", nil), ("65536", 65536), ("64K", 65536), ("500k", 512_000), ("20M", 20 << 20), ("1G", 1 << 30),
      ("1024G", 1 << 40),
    ] as [(String, UInt64?)] {
      let limit = try #require(StorageLimit(text), "\(text)")
      #expect(limit.rate?.bytesPerSecond == rate)
      #expect(StorageLimit(limit.description) == limit)
    }
    #expect(StorageLimit("20M")?.description == "20M" && StorageLimit("65537")?.description == "65537")
    for text in ["", "M", "0", "65535", "63K", "1025G", "+20M", "-20M", "20 M", "20MB", "1.5M", "deny", "٢M"]
    {
      #expect(StorageLimit(text) == nil, "\(text)")
    }
  }

  @Test func aWrongRateIsNamed() throws {
    let (status, said) = try told(by: ["host", "--socket", "/nowhere/host.sock", "--background-storage=7"])
    #expect(status != 0)
    #expect(said.contains("--background-storage is '7': expected bytes a second, as 500K, 20M or 1G"))
    let text = #"{"CFBundleIdentifier":"a","OpportuneCommand":["x"],"OpportuneStorage":"fast"}"#
    let error = #expect(throws: HostManifestError.self) {
      try HostManifest(file: "/x/a.json", bytes: [UInt8](text.utf8))
    }
    #expect(error?.message.contains("'OpportuneStorage' is 'fast', expected bytes a second") == true)
  }

  // MARK: Which devices, and by which controller

  @Test func hardwareIsLimitedAndWhatIsMadeOfItIsNot() throws {
    let tree = try FakeTree()
    for (name, number) in [("vda", "254:0\n"), ("nvme0n1", "259:3\n"), ("nvme0c0n1", nil)] {
      try tree.block(name, number, isHardware: true)
    }
    for name in ["loop0", "ram1", "zram0", "dm-0"] { try tree.block(name, "7:1\n", isHardware: false) }
    #expect(BlockDevices.physical(in: tree.path + "/block") == ["254:0", "259:3"])
    #expect(BlockDevices.physical(in: "/nowhere") == [])
  }

  // R-DISK-02
  @Test func bothVersionsOfControlGroupsAreWritten() throws {
    let tree = try FakeTree()
    try tree.write("group/io.max", "")
    let second = StorageGroup(ControllerGroup(path: tree.path + "/group", root: nil))
    #expect(second.limit(to: try #require(ByteRate("20M")), ["254:0"], members: { [] }) == nil)
    #expect(try tree.read("group/io.max") == "254:0 rbps=20971520 wbps=20971520")
    try tree.write("group/io.max", "8:16 rbps=1 wbps=2 riops=max wiops=max\n")
    second.unlimit()
    #expect(try tree.read("group/io.max").hasPrefix("8:16 rbps=max wbps=max"))

    let names = ["read", "write"].map { "old/blkio.throttle.\($0)_bps_device" }
    for name in names { try tree.write(name, "") }
    let first = StorageGroup(ControllerGroup(path: tree.path + "/old", root: tree.path))
    #expect(first.limit(to: try #require(ByteRate("64K")), ["254:0"], members: { [] }) == nil)
    for name in names { #expect(try tree.read(name) == "254:0 65536") }
    first.unlimit()
    for name in names { #expect(try tree.read(name).hasPrefix("254:0 0")) }
  }

  // R-DISK-02
  @Test func whatAHostHasLeftIsSweptInBothVersions() throws {
    let tree = try FakeTree()
    try tree.write("group/io.max", "8:16 rbps=1 wbps=2 riops=max wiops=max\n")
    try tree.write("blkio/cgroup.procs", "")
    for key in ["key", "other"] {
      for name in ["read", "write"] {
        try tree.write("blkio/opportune/\(key)/app/blkio.throttle.\(name)_bps_device", "254:0 9\n")
      }
      try tree.write("blkio/opportune/\(key)/app/cgroup.procs", "4711\n")
    }
    StorageGroup.sweep(key: "key", groups: [tree.path + "/group"], root: tree.path + "/blkio")
    #expect(try tree.read("group/io.max").hasPrefix("8:16 rbps=max wbps=max"))
    #expect(try tree.read("blkio/cgroup.procs") == "4711")
    for name in ["read", "write"] {
      let file = "app/blkio.throttle.\(name)_bps_device"
      #expect(try tree.read("blkio/opportune/key/" + file).hasPrefix("254:0 0"))
      #expect(try tree.read("blkio/opportune/other/" + file) == "254:0 9\n")
    }
  }

  @Test func theVersionThatWorksIsChosenAndALackIsTold() throws {
    let tree = try FakeTree()
    func lack(_ group: String?, _ blkio: String?, ours: Set<Int32> = []) -> String? {
      StorageSupport(blkio: blkio.map { tree.path + "/" + $0 }, blocks: tree.path + "/block").lack(
        inGroup: group.map { tree.path + "/" + $0 }, ours: ours)
    }
    #expect(lack(nil, nil) == "there is no block device in '\(tree.path)/block'")
    try tree.block("vda", "254:0\n", isHardware: true)
    #expect(lack(nil, nil) == StorageSupport.noGroup)
    #expect(lack("nowhere", "nowhere") == StorageSupport.noGroup)
    try tree.write("blkio/cgroup.procs", "")
    #expect(lack(nil, "blkio") == nil)
    // Of version 2: the first of all, one that hands down, and one that has processes of its own.
    try tree.write("group/cgroup.subtree_control", "cpu\n")
    try tree.write("group/cgroup.controllers", "cpu memory\n")
    #expect(lack("group", nil) == StorageSupport.noGroup)
    try tree.write("group/cgroup.controllers", "cpu io memory\n")
    #expect(lack("group", nil) == nil)
    try tree.write("group/cgroup.type", "domain\n")
    try tree.write("group/cgroup.procs", "\(getpid())\n1\n")
    #expect(lack("group", nil) == StorageSupport.noGroup)
    // Others than who would move out.
    #expect(lack("group", nil, ours: [getpid()]) == StorageSupport.noGroup)
    try tree.write("group/cgroup.procs", "\(getpid())\n")
    #expect(lack("group", nil, ours: [getpid()]) == nil)
    #expect(lack("group", nil) == StorageSupport.noGroup)
    try tree.write("group/cgroup.procs", "")
    #expect(lack("group", nil) == nil)
    try tree.write("group/cgroup.procs", "1\n")
    try tree.write("group/cgroup.subtree_control", "cpu io\n")
    #expect(lack("group", nil) == nil)
  }

  // MARK: By the state of an app

  // R-DISK-02, R-PWR-05
  @Test func whoIsInBackgroundIsLimitedAndWhoDoesNotRunStaysAsItWas() throws {
    let tree = try FakeTree()
    try tree.block("vda", "254:0\n", isHardware: true)
    try tree.write("group/io.max", "")
    let support = StorageSupport(blkio: nil, blocks: tree.path + "/block")
    let storage = AppStorage(
      try #require(StorageLimit("20M")), key: "none", name: "app", group: tree.path + "/group",
      support: support)
    let limits = AppLimits(
      BackgroundLimits(devices: try DeviceList("none")), group: nil, kept: [], network: .none,
      storage: storage)
    var policy = RestrictionPolicy()
    func enter(_ state: LifecycleState) {
      limits.set(
        Restrictions(state, receivesInput: false, audio: nil, hasFullPower: false, policy: policy),
        members: { [] })
    }
    for (state, isLimited) in [
      (LifecycleState.active, false), (.terminated, false), (.background, true), (.suspended, true),
      (.background, true), (.hibernated, true), (.inactive, false), (.background, true), (.terminated, true),
    ] {
      enter(state)
      #expect(storage.isLimited == isLimited, "\(state)")
      #expect(limits.notes == [])
    }
    policy.limitsInactive = true
    for state in [LifecycleState.inactive, .active] {
      limits.lift([])
      enter(state)
      #expect(storage.isLimited, "\(state)")
    }
    limits.lift([])
    #expect(!storage.isLimited)
    #expect(try tree.read("group/io.max").hasPrefix("254:0 rbps=max wbps=max"))
  }

  @Test func withoutAControllerItIsToldWhileItIsInBackground() throws {
    let tree = try FakeTree()
    try tree.block("vda", "254:0\n", isHardware: true)
    func limits(_ text: String) throws -> AppLimits {
      AppLimits(
        BackgroundLimits(devices: try DeviceList("none")), group: nil, kept: [], network: .none,
        storage: AppStorage(
          try #require(StorageLimit(text)), key: "none", name: "app", group: nil,
          support: StorageSupport(blkio: nil, blocks: tree.path + "/block")))
    }
    let (limited, allowed) = (try limits("20M"), try limits("allow"))
    for (state, notes) in [
      (
        LifecycleState.background,
        [
          "background is not kept from reading and writing more than 20M a second: "
            + "that needs control groups with the controller io (version 2) or blkio (version 1) "
            + "that may be written"
        ]
      ), (.active, []),
    ] {
      let restrictions = Restrictions(
        state, receivesInput: true, audio: nil, hasFullPower: false, policy: RestrictionPolicy())
      for one in [limited, allowed] { one.set(restrictions, members: { [] }) }
      #expect(limited.notes == notes && allowed.notes == [], "\(state)")
    }
  }

  // MARK: Real programs

  /// Counts what it has read, past the kernel's cache, a tenth of a second each.
  private static let reading = """
    import mmap, os, sys, time
    file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
    room, size, place = mmap.mmap(-1, 1 << 16), os.fstat(file).st_size, 0
    while True:
      end, read = time.monotonic() + 0.1, 0
      while time.monotonic() < end:
        if place >= size: place = 0
        read += os.preadv(file, [room], place)
        place += 1 << 16
      print(read, flush=True)
    """

  /// What it is limited to, as the kernel has it, in bytes a second; `nil`: it is not.
  private static func limit(of pid: Int32) -> UInt64? {
    guard let path = group(of: pid) else { return nil }
    let text = SystemFile.text(path + "/io.max") ?? SystemFile.text(path + "/blkio.throttle.read_bps_device")
    let words = text?.split { " \n".contains($0) }
    guard let word = words?.dropFirst().first else { return nil }
    return UInt64(word.hasPrefix("rbps=") ? word.dropFirst(5) : word)
  }

  /// The group of a process that limits it, where it is in one that a host has made.
  private static func group(of pid: Int32) -> String? {
    if let path = ControlGroupTree.group(of: pid), SystemFile.exists(path + "/io.max") { return path }
    guard let root = ControllerGroup.mount(of: "blkio"), let groups = SystemFile.text("/proc/\(pid)/cgroup"),
      let line = groups.split(separator: "\n").first(where: { $0.contains(":blkio:/opportune/") }),
      let start = line.range(of: ":blkio:")
    else { return nil }
    return root + line[start.upperBound...]
  }

  private static let isPossible = StorageSupport.lack() == nil
  private static let why: Comment =
    "there is no block device, or neither io.max nor blkio.throttle may be written here, which needs root"
  /// Whether what is read from the tests' folder comes from one of the devices.
  private static let readsDevice: Bool = {
    var status = stat()
    guard isPossible, Backends.python != nil,
      stat(FileManager.default.temporaryDirectory.path, &status) == 0
    else { return false }
    let device = DeviceList.Device(isBlock: true, number: UInt64(status.st_dev))
    let number = "\(device.major):\(device.minor ?? 0)"
    return BlockDevices.physical(in: "/sys/block").contains(number)
      || SystemFile.exists("/sys/dev/block/\(number)/partition")
  }()
  private static let whyNoDevice: Comment =
    "there is no Python, the temporary folder is of no block device, or nothing may be limited here"

  private func file(_ place: Place) throws -> String {
    let path = place.folder.path + "/file"
    let made = try outcome(of: [
      "/bin/dd", "if=/dev/zero", "of=\(path)", "bs=1M", "count=16", "conv=fsync",
    ])
    try #require(made.status == 0, "\(made.errors)")
    return path
  }

  /// How much it reads in half a second from now on.
  private func reads(_ output: Output) async throws -> Int {
    output.forget()
    return try await output.lines(7).dropFirst(2).compactMap { Int($0) }.reduce(0, +)
  }

  /// Who is stopped by signals has no group of version 2: a rate needs one of version 1 then.
  private static let backends = Backends.usable.filter {
    $0 == .cgroup || ControllerGroup.mount(of: "blkio") != nil
  }

  // R-DISK-01, R-DISK-02
  @Test(.enabled(if: readsDevice, whyNoDevice), arguments: backends)
  func aProgramReadsFasterInFront(backend: Backend) async throws {
    let (place, output) = (try Place(), try Output())
    let key = Hosted.newKey()
    do {
      let hosted = try Hosted(
        backend, key: key, devices: DeviceList("none"), storage: try #require(StorageLimit("512K")))
      #expect(hosted.host.notes.allSatisfy { !$0.contains("reading and writing") })
      let pid = try hosted.host.launch(
        [try #require(Backends.python), "-c", Self.reading, try file(place)], name: "app",
        descriptors: [-1, output.written, -1])
      let behind = try await reads(output)
      #expect(Self.limit(of: pid) == 512 << 10)
      #expect(hosted.entry()?.notes == [])
      try hosted.host.bringForward("app")
      let inFront = try await reads(output)
      #expect(Self.limit(of: pid) == nil)
      #expect(inFront > 4 * behind, "\(inFront) in front, \(behind) in background")
      _ = try hosted.shell("exec sleep 600", name: "other", foreground: true)
      #expect(Self.limit(of: pid) == 512 << 10)
      try hosted.host.suspend("app")
      try hosted.host.resume("app")
      #expect(Self.limit(of: pid) == 512 << 10)
      // Nothing stays limited without a host.
      hosted.host.stop()
      #expect(Self.limit(of: pid) == nil)
      #expect(try await reads(output) > 4 * behind)
    }
    // A host after it ends what is left.
    try await Hosted(backend, key: key).end()
  }

  // R-DISK-02
  @Test(.enabled(if: isPossible, why)) func theManifestGoesBeforeTheHostAndChildrenAreLimitedToo()
    async throws
  {
    let place = try ManifestPlace()
    for (name, keys) in [
      ("free", ["OpportuneStorage": "allow"]), ("slow", ["OpportuneStorage": "1M"]), ("as", [:]),
    ] {
      try place.script("sleep 600 & exec sleep 600", place.path, name: name, keys)
    }
    let hosted = try Hosted(
      .auto, catalog: ManifestCatalog(folders: [place.path]), storage: try #require(StorageLimit("2M")))
    for (name, rate) in [("free", nil), ("slow", 1 << 20), ("as", 2 << 20)] as [(String, UInt64?)] {
      try hosted.host.start(name)
      try await eventually("its child") { hosted.entry(name)?.pids.count == 2 }
      for pid in hosted.entry(name)?.pids ?? [] { #expect(Self.limit(of: pid) == rate, "\(name)") }
    }
    try await hosted.end()
  }

  /// Groups of version 1 are beside those of the app, and go with it.
  // R-DISK-02
  @Test(.enabled(if: isPossible, why)) func aTreeThatIsTakenInIsLimitedAndNothingIsLeftOfIt() async throws {
    let output = try Output()
    let program = try startShell("sleep 600 & echo $!; wait", output)
    let child = try #require(Int32(try await output.lines(1)[0]))
    let hosted = try Hosted(.auto, storage: try #require(StorageLimit("2M")))
    _ = try hosted.host.adopt(program.processIdentifier, name: "app")
    var groups: Set<String> = []
    for pid in [program.processIdentifier, child] {
      #expect(Self.limit(of: pid) == 2 << 20)
      groups.insert(try #require(Self.group(of: pid)))
    }
    #expect(groups.count == 1)
    try await hosted.end()
    program.waitUntilExit()
    for path in groups { #expect(!SystemFile.exists(path), "\(path)") }
  }

  // R-DISK-02
  @Test(.enabled(if: isPossible, why), arguments: [false, true])
  func whatAKilledHostHasLeftIsLiftedByTheNext(nextLimits: Bool) async throws {
    let (place, output) = (try Place(), try Output())
    let options = ["--front", "none", "--background-storage", "2M"]
    let host = try await HostProgram(place, .auto, options: options)
    let program = try host.run(
      ["sh", "-c", "echo on; exec sleep 600"], options: ["--name", "app"], output: output)
    let pid = program.processIdentifier
    #expect(try await output.lines(1) == ["on"])
    kill(host.process.processIdentifier, SIGKILL)
    host.process.waitUntilExit()
    #expect(Self.limit(of: pid) == 2 << 20)
    let next = try await HostProgram(
      place, .auto,
      options: nextLimits ? ["--front", "none", "--background-storage", "3M"] : ["--front", "none"])
    #expect(try next.ask(.apps, nil).apps?.map(\.id) == ["app"])
    #expect(Self.limit(of: pid) == (nextLimits ? 3 << 20 : nil))
    next.end()
    #expect(Self.limit(of: pid) == nil)
    kill(pid, SIGKILL)
    program.waitUntilExit()
  }

  @Test(
    .enabled(
      if: OrdinaryUserTests.isPossible,
      "only root becomes nobody, and nobody must be able to reach the program"))
  func whoMayWriteNoGroupIsToldAndHasItsAppsAllTheSame() async throws {
    let place = try Place()
    try #require(chown(place.folder.path, 65534, 65534) == 0)
    let errors = try Output()
    let host = try await HostProgram(
      place, .auto, options: ["--front", "none", "--background-storage", "2M"],
      prefix: OrdinaryUserTests.become,
      errors: errors)
    let lack = "background is not kept from reading and writing more than 2M a second"
    #expect(try await errors.line(lack).contains("Note: \(lack)"))
    host.end()
    let said = try outcome(of: OrdinaryUserTests.become + [try command().path, "doctor", "--json"])
    #expect(said.status == 0 && said.output.contains("OpportuneStorage in manifests, do nothing"))
  }
}

extension FakeTree {
  /// - Parameter number: `nil`: it has none, as a path of NVMe of several.
  func block(_ name: String, _ number: String?, isHardware: Bool) throws {
    try write("block/\(name)/size", "1\n")
    if let number { try write("block/\(name)/dev", number) }
    if isHardware { try write("block/\(name)/device/vendor", "none\n") }
  }
}
