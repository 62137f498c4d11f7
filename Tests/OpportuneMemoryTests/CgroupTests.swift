import Foundation
import Glibc
import TestSupport
import Testing

@testable import OpportuneMemory

/// A memory cgroup named after the process that runs the tests. It is a child of that process's cgroup. In
/// version 2, where a group with processes cannot have limited children, it is a sibling.
private struct Cgroup {
  let folder: String
  private let limitFile: String

  /// `nil` where the process is in none.
  init?(below parent: Int32, _ name: String) {
    guard let groups = KernelFile.text("/proc/self/cgroup") else { return nil }
    for line in groups.split(separator: "\n") {
      let fields = line.split(separator: ":", omittingEmptySubsequences: false)
      guard fields.count == 3 else { continue }
      if fields[1] == "memory" {
        folder = "/sys/fs/cgroup/memory\(fields[2] == "/" ? "" : fields[2])/opportune-test-\(parent)-\(name)"
        limitFile = "memory.limit_in_bytes"
        return
      }
      let above = "/sys/fs/cgroup" + (fields[2].lastIndex(of: "/").map { fields[2][..<$0] } ?? "")
      if fields[0] == "0", KernelFile.text("\(above)/cgroup.subtree_control")?.contains("memory") == true {
        folder = "\(above)/opportune-test-\(parent)-\(name)"
        limitFile = "memory.max"
        return
      }
    }
    return nil
  }

  /// Puts the calling process in, with so many bytes at most.
  func join(limit: Int) -> Bool {
    mkdir(folder, 0o755)
    return write("\(limit)", limitFile) && write("\(getpid())", "cgroup.procs")
  }

  func remove() { rmdir(folder) }

  private func write(_ text: String, _ file: String) -> Bool {
    let descriptor = open("\(folder)/\(file)", O_WRONLY)
    defer { close(descriptor) }
    return descriptor >= 0 && Glibc.write(descriptor, text, text.utf8.count) == text.utf8.count
  }

  static var mayMake: Bool {
    guard let group = Cgroup(below: getpid(), "probe"), mkdir(group.folder, 0o755) == 0 else { return false }
    return rmdir(group.folder) == 0
  }
}

/// Another process that has so much memory in use until it is killed: dd reads it whole, and finds no room to
/// write it to. What it writes to can be read once it has it all.
private func startHolder(mebibytes: Int) -> (process: pid_t, output: Int32)? {
  var ends: [Int32] = [-1, -1]
  guard pipe(&ends) == 0 else { return nil }
  var actions = posix_spawn_file_actions_t()
  posix_spawn_file_actions_init(&actions)
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
  defer { posix_spawn_file_actions_destroy(&actions) }
  let words: [String] = ["dd", "if=/dev/zero", "bs=\(mebibytes)M", "count=1"]
  var arguments = words.map { strdup($0) } + [nil]
  defer { for argument in arguments { free(argument) } }
  var process: pid_t = 0
  return posix_spawnp(&process, "dd", &actions, nil, &arguments, environ) == 0 ? (process, ends[0]) : nil
}

extension Trait where Self == ConditionTrait {
  fileprivate static var inCgroup: Self { .enabled(if: Cgroup.mayMake, "no memory cgroup may be made here") }
  fileprivate static var unsanitized: Self {
    .disabled(if: isSanitized, "the limit leaves a sanitizer no room")
  }
}

private var hasSwap: Bool {
  KernelFile.text("/proc/swaps").map { $0.split(separator: "\n").count > 1 } ?? false
}

private let limit = 96 << 20

/// Limits the calling process, which a test has started.
private func enterCgroup(_ name: String) {
  guard let group = Cgroup(below: getppid(), name), group.join(limit: limit) else { _exit(1) }
}

/// Waits until enough was purged for the group to be below its critical point, and sees that not all was.
private func relief(
  of regions: [Purgeable<UInt8>], _ broker: MemoryBroker, _ levels: inout AsyncStream<PressureLevel>.Iterator
) async {
  func isRelieved() -> Bool {
    regions.contains(where: \.isPurged) && broker.reading.map { $0.inUse < UInt64(limit) * 3 / 4 } == true
  }
  while !isRelieved() { _ = await levels.next() }
  require(regions.contains { !$0.isPurged }, "as much as was needed")
}

/// Where purgeable memory of an app in background fills most of the group, and nobody listens to levels.
private func allocateInFront(_ bytes: Int, blocks: Int) throws {
  enterCgroup("room")
  let broker = try MemoryBroker()
  let behind = broker.makeMemory(named: "browser", standing: .background)
  let front = broker.makeMemory(named: "front")
  let regions = try (0..<60).map { _ in try behind.purgeable(of: UInt8.self, count: 1 << 20) }
  for region in regions { region.fill(1) }
  let held = try (0..<blocks).map { _ in try front.allocate(bytes: bytes / blocks) }
  let purged = regions.count(where: \.isPurged)
  require(purged >= 40, "\(purged) were purged before anything was touched")
  for block in held { block.bytes.initializeMemory(as: UInt8.self, repeating: 1) }
  withExtendedLifetime(held) {}
  _exit(7)
}

/// The same, of what is made again in front.
private func refillInFront(_ bytes: Int, regions count: Int) throws {
  enterCgroup("again")
  let broker = try MemoryBroker()
  let front = broker.makeMemory(named: "front")
  let again = try (0..<count).map { _ in try front.purgeable(of: UInt8.self, count: bytes / count) }
  for region in again {
    region.fill(1)
    try region.purge()
  }
  let behind = broker.makeMemory(named: "browser", standing: .background)
  let regions = try (0..<20).map { _ in try behind.purgeable(of: UInt8.self, count: 3 << 20) }
  for region in regions { region.fill(1) }
  require(!regions.contains(where: \.isPurged), "what was purged needs no room")
  for region in again {
    region.withContents {
      guard case .purged(let buffer) = $0 else { _exit(2) }
      let purged = regions.count(where: \.isPurged)
      require(purged >= 13 || count > 1, "\(purged) were purged before anything was touched")
      buffer.update(repeating: 2)
    }
  }
  let purged = regions.count(where: \.isPurged)
  require((13..<20).contains(purged), "\(purged) were purged")
  _exit(7)
}

@Suite(.bounded, .timeLimit(.minutes(1))) struct CgroupTests {
  // R-GFX-04, R-GFX-05, R-GFX-06
  @Test(.inCgroup, .unsanitized)
  func ordinaryAllocationGetsTheDrawingMemoryOfAnAppThatLeftTheForeground() async {
    await #expect(processExitsWith: .exitCode(7)) {
      enterCgroup("drawing")
      let app = try MemoryBroker().makeMemory(named: "game")
      let drawing = try app.drawing(bytes: 60 << 20)
      drawing.fill(0x5A)
      app.setStanding(.background)
      require(app.ledger.lazy == 60 << 20, "its pages are the kernel's to take: \(app.ledger)")
      // More than what is left of the limit, as any library allocates it.
      let bytes = 60 << 20
      guard let ordinary = malloc(bytes) else { _exit(2) }
      memset(ordinary, 1, bytes)
      app.setStanding(.active)
      require(drawing.isAll(0x5A) == nil, "the owner learns that it has to draw again")
      free(ordinary)
      drawing.fill(0x5B)
      require(drawing.isAll(0x5B) == true, "and can")
      _exit(7)
    }
    Cgroup(below: getpid(), "drawing")?.remove()
  }

  // R-MEM-01, R-MEM-05
  @Test(.inCgroup, .unsanitized)
  func aCgroupsLimitIsHonoured() async {
    await #expect(processExitsWith: .exitCode(7)) {
      enterCgroup("limit")
      let broker = try MemoryBroker()
      let app = broker.makeMemory(named: "browser", standing: .background)
      let regions = try (0..<60).map { _ in try app.purgeable(of: UInt8.self, count: 1 << 20) }
      for region in regions { region.fill(1) }
      guard let ordinary = malloc(20 << 20) else { _exit(3) }
      memset(ordinary, 1, 20 << 20)
      guard let full = broker.reading else { _exit(2) }
      require(full.capacity == UInt64(limit), "not the machine's memory: \(full)")
      require(full.inUse >= 80 << 20 && full.inUse <= UInt64(limit), "what was touched counts: \(full)")

      var levels = try broker.levels().makeAsyncIterator()
      let first = await levels.next()
      require(first == .critical, "80 of 96 MiB are critical")
      let second = await levels.next()
      require(second != .critical, "purging was enough")
      guard let relieved = broker.reading else { _exit(2) }
      require(relieved.inUse < UInt64(limit) * 3 / 4, "below the critical point: \(relieved)")
      let purged = regions.count(where: \.isPurged)
      require((8...40).contains(purged), "as much as was needed: \(purged)")
      _exit(7)
    }
    Cgroup(below: getpid(), "limit")?.remove()
  }

  /// Nobody listens to levels, and nobody looks before the pages are touched but who allocates them.
  // R-MEM-01, R-MEM-05
  @Test(.inCgroup, .unsanitized)
  func whoeverAllocatesHasRoomBeforeItIsTouched() async {
    await #expect(processExitsWith: .exitCode(7)) { try allocateInFront(60 << 20, blocks: 1) }
    Cgroup(below: getpid(), "room")?.remove()
    await #expect(processExitsWith: .exitCode(7)) { try allocateInFront(60 << 20, blocks: 60) }
    Cgroup(below: getpid(), "room")?.remove()
  }

  // R-MEM-01, R-MEM-05
  @Test(.inCgroup, .unsanitized)
  func whoeverMakesContentAgainHasRoomBeforeItIsTouched() async {
    await #expect(processExitsWith: .exitCode(7)) { try refillInFront(60 << 20, regions: 1) }
    Cgroup(below: getpid(), "again")?.remove()
    await #expect(processExitsWith: .exitCode(7)) { try refillInFront(60 << 20, regions: 20) }
    Cgroup(below: getpid(), "again")?.remove()
  }

  /// Nobody stalls: there is room up to the limit. And nobody hands anything out.
  // R-MEM-01, R-MEM-02
  @Test(.inCgroup, .unsanitized)
  func aPointThatIsCrossedWithoutAStallIsNoticed() async {
    await #expect(processExitsWith: .exitCode(7)) {
      enterCgroup("quiet")
      let broker = try MemoryBroker()
      let app = broker.makeMemory(named: "browser", standing: .background)
      let regions = try (0..<46).map { _ in try app.purgeable(of: UInt8.self, count: 1 << 20) }
      var levels = try broker.levels().makeAsyncIterator()
      let first = await levels.next()
      require(first == .normal, "nothing was touched yet")
      while broker.core.use.awaited == nil { sched_yield() }
      require(
        broker.core.use.awaited.map { $0 < UInt64(limit) } == true,
        "it is looked at for the group, not the machine")
      for region in regions { region.fill(1) }
      guard let ordinary = malloc(30 << 20) else { _exit(3) }
      memset(ordinary, 1, 30 << 20)
      await relief(of: regions, broker, &levels)
      _exit(7)
    }
    Cgroup(below: getpid(), "quiet")?.remove()
  }

  /// They count against a cgroup while they are in use, and nobody is removed for what can be loaded again.
  // R-MEM-01, R-MEM-05
  @Test(.inCgroup, .unsanitized)
  func cleanPagesGoBeforeAnyApp() async {
    await #expect(processExitsWith: .exitCode(7)) {
      enterCgroup("clean")
      let file = FileManager.default.temporaryDirectory.appending(path: "opportune-clean-\(UUID())")
      try Data(repeating: 7, count: 50 << 20).write(to: file)
      let descriptor = open(file.path, O_RDONLY)
      require(fsync(descriptor) == 0, "the file is on the disk")
      // Read twice, and the kernel takes them for pages in use.
      let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
      for at in (0..<50) where pread(descriptor, piece.baseAddress, 1 << 20, off_t(at << 20)) < 0 { _exit(4) }
      for at in (0..<50) where pread(descriptor, piece.baseAddress, 1 << 20, off_t(at << 20)) < 0 { _exit(4) }
      close(descriptor)
      let broker = try MemoryBroker()
      let behind = broker.makeMemory(named: "reader", standing: .background)
      let front = broker.makeMemory(named: "front")
      let files = try [behind, front].map { try $0.map(file: file.path) }
      try FileManager.default.removeItem(at: file)
      // Little, of apps that are nearer to the person in front.
      try Data(repeating: 7, count: 4 * pageSize).write(to: file)
      let inactive = broker.makeMemory(named: "inactive", standing: .inactive)
      let small = try [inactive, front].map { try $0.map(file: file.path) }
      try FileManager.default.removeItem(at: file)
      func read(_ block: MemoryBlock) -> Int {
        stride(from: 0, to: block.count, by: pageSize).reduce(0) { $0 + Int(block.bytes[$1]) }
      }
      require(read(files[0]) == 7 * (50 << 20) / pageSize, "the file is mapped")
      for file in small { require(read(file) == 7 * 4, "it is in use") }
      let held = try behind.allocate(bytes: 30 << 20)
      held.bytes.initializeMemory(as: UInt8.self, repeating: 1)
      guard let full = broker.reading else { _exit(2) }
      require(full.inUse >= UInt64(limit) * 3 / 4, "clean pages in use count: \(full)")
      let relief = broker.relieve()
      require(
        relief.removals.isEmpty && relief.missing == 0,
        "nobody goes: \(relief), \(String(describing: broker.reading))")
      // But for those that another CPU still holds on their way to the kernel's lists: 31 at most each.
      let most = 31 * ProcessInfo.processInfo.processorCount
      let left = residentPages(files[0].bytes)
      require(left <= most, "they are gone, but for \(left)")
      for file in small { require(residentPages(file.bytes) == 4, "as far as needed") }
      let more = try front.allocate(bytes: 44 << 20)
      more.bytes.initializeMemory(as: UInt8.self, repeating: 1)
      _ = broker.relieve()
      require(residentPages(small[0].bytes) == 0, "an inactive app's go as well")
      require(residentPages(small[1].bytes) == 4, "the active app's never")
      let some = files[0].bytes[50 << 19]
      require(some == 7, "and are loaded again")
      withExtendedLifetime((held, more)) {}
      _exit(7)
    }
    Cgroup(below: getpid(), "clean")?.remove()
  }

  // R-MEM-01
  @Test(.inCgroup, .unsanitized)
  func roomIsMadeForWhatAnotherProcessTakes() async {
    await #expect(processExitsWith: .exitCode(7)) {
      enterCgroup("other")
      var configuration = MemoryConfiguration()
      configuration.gauge = try PressureGauge(warning: CriticalPoint(share: 0.4), critical: .threeQuarters)
      let broker = try MemoryBroker(configuration: configuration)
      let app = broker.makeMemory(named: "browser", standing: .background)
      let regions = try (0..<50).map { _ in try app.purgeable(of: UInt8.self, count: 1 << 20) }
      for region in regions { region.fill(1) }
      var levels = try broker.levels().makeAsyncIterator()
      let first = await levels.next()
      require(first == .warning && !regions.contains(where: \.isPurged), "nothing is critical yet")
      guard let other = startHolder(mebibytes: 30) else { _exit(3) }
      var holder = pollfd(fd: other.output, events: Int16(POLLIN), revents: 0)
      require(poll(&holder, 1, 30_000) == 1, "it has what it takes")
      await relief(of: regions, broker, &levels)
      kill(other.process, SIGKILL)
      waitpid(other.process, nil, 0)
      _exit(7)
    }
    Cgroup(below: getpid(), "other")?.remove()
  }

  /// What the tests above are compared with: the same in ordinary memory.
  // R-MEM-01
  @Test(
    .inCgroup, .unsanitized, .disabled(if: hasSwap, "there is swap, which takes what memory has no room for"))
  func withoutTheLibraryTheKernelEndsTheProgram() async {
    await #expect(processExitsWith: .signal(SIGKILL)) {
      enterCgroup("plain")
      for _ in 0..<2 {
        guard let ordinary = malloc(60 << 20) else { _exit(2) }
        memset(ordinary, 1, 60 << 20)
      }
      _exit(7)
    }
    Cgroup(below: getpid(), "plain")?.remove()
  }

  // R-GFX-04
  @Test(arguments: MemoryConfiguration.Drawing.allCases)
  func drawingMemoryGoesAsTheOptionSays(drawing: MemoryConfiguration.Drawing) throws {
    let broker = try makeBroker { $0.drawing = drawing }
    let app = broker.makeMemory(named: "game")
    let other = broker.makeMemory(named: "other")
    let others = try other.drawing(bytes: 1)
    let buffer = try app.drawing(bytes: 1)
    let plain = try app.purgeable(of: UInt8.self, count: 1, isVolatile: false)
    #expect(!buffer.isVolatile)
    buffer.fill(4)
    app.setStanding(.inactive)
    #expect(!buffer.isVolatile, "it is in front")
    app.setStanding(.suspended)
    let page = UInt64(pageSize)
    #expect(buffer.isVolatile == (drawing != .kept))
    #expect(app.ledger.volatile == (drawing == .volatile ? page : 0))
    #expect(app.ledger.lazy == (drawing == .lazy ? page : 0))
    #expect(try app.drawing(bytes: 1).isVolatile == (drawing != .kept), "made in background")
    #expect(!plain.isVolatile && !others.isVolatile)
    app.setStanding(.active)
    #expect(!buffer.isVolatile && buffer.isAll(4) == true)
    app.setStanding(.background)
    #expect(broker.purge(.max) == (drawing == .kept ? 0 : page))
    app.setStanding(.active)
    #expect(buffer.isAll(4) == (drawing == .kept ? true : nil))
  }

  // MARK: Files as kernels write them

  private func folder(_ files: [String: String]) throws -> String {
    let root = FileManager.default.temporaryDirectory.appending(path: "opportune-\(UUID())").path
    for (name, text) in files {
      let path = "\(root)/\(name)"
      try FileManager.default.createDirectory(
        atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
      try text.replacing("ROOT", with: root).write(toFile: path, atomically: false, encoding: .utf8)
    }
    return root
  }

  private let meminfo = "MemTotal:        1000 kB\nMemFree:          100 kB\nMemAvailable:     600 kB\n"

  // R-MEM-01
  @Test func theShortestOfTheGroupsAboveCountsInVersion2() throws {
    let root = try folder([
      "meminfo": meminfo, "self/cgroup": "0::/a/b\n",
      "self/mountinfo": "41 31 0:38 / ROOT/v2 rw,relatime shared:9 - cgroup2 cgroup2 rw\n",
      "v2/a/memory.max": "400000\n", "v2/a/memory.current": "390000\n",
      "v2/a/memory.stat": "anon 1\ninactive_file 90000\n",
      "v2/a/b/memory.max": "max\n", "v2/a/b/memory.current": "1\n",
    ])
    defer { try? FileManager.default.removeItem(atPath: root) }
    let memory = MachineMemory(proc: root)
    #expect(memory.machineReading() == MemoryReading(capacity: 1_024_000, inUse: 409_600))
    #expect(memory.cgroupReadings() == [MemoryReading(capacity: 400_000, inUse: 300_000)])
    #expect(memory.reading() == MemoryReading(capacity: 400_000, inUse: 300_000))
  }

  /// Its processes are slowed down there, long before the other limit is reached.
  // R-MEM-01
  @Test(arguments: ["max", "900000"]) func theHighMarkOfVersion2IsALimit(most: String) throws {
    let root = try folder([
      "meminfo": meminfo, "self/cgroup": "0::/a\n",
      "self/mountinfo": "41 31 0:38 / ROOT/v2 rw,relatime shared:9 - cgroup2 cgroup2 rw\n",
      "v2/a/memory.max": "\(most)\n", "v2/a/memory.high": "400000\n", "v2/a/memory.current": "390000\n",
      "v2/a/memory.stat": "inactive_file 90000\n",
    ])
    defer { try? FileManager.default.removeItem(atPath: root) }
    #expect(MachineMemory(proc: root).cgroupReadings() == [MemoryReading(capacity: 400_000, inUse: 300_000)])
  }

  // R-MEM-01
  @Test func aContainersRootIsFoundInVersion1() throws {
    let root = try folder([
      "meminfo": meminfo, "self/cgroup": "3:cpuset:/\n4:hugetlb,memory:/docker/id/app\n0::/x\n",
      "self/mountinfo": """
      31 23 0:28 / ROOT rw - tmpfs tmpfs rw,mode=755
      35 31 0:32 /docker/id ROOT/v1 rw,relatime - cgroup cgroup rw,hugetlb,memory

      """,
      "v1/memory.limit_in_bytes": "9223372036854771712\n", "v1/memory.usage_in_bytes": "5\n",
      "v1/app/memory.limit_in_bytes": "1000000\n", "v1/app/memory.usage_in_bytes": "200000\n",
      "v1/app/memory.stat": "inactive_file 7\ntotal_inactive_file 100000\n",
    ])
    defer { try? FileManager.default.removeItem(atPath: root) }
    let memory = MachineMemory(proc: root)
    #expect(memory.cgroupReadings() == [MemoryReading(capacity: 1_000_000, inUse: 100_000)])
    #expect(memory.reading() == MemoryReading(capacity: 1_024_000, inUse: 409_600), "the machine is shorter")
  }
}
