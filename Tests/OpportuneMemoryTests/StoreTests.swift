import Foundation
import OpportuneModels
import TestSupport
import Testing

@testable import OpportuneMemory

private func save(_ store: HibernationStore, _ app: String, _ parts: [[UInt8]]) throws {
  func next(_ index: Int, _ buffers: [UnsafeRawBufferPointer]) throws {
    guard index < parts.count else {
      try store.save(app, buffers)
      return
    }
    try parts[index].withUnsafeBytes { try next(index + 1, buffers + [$0]) }
  }
  try next(0, [])
}

private func noise(_ count: Int, seed: UInt64) -> [UInt8] {
  var generator = SplitMix64(seed: seed)
  return (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
}

/// Bytes that this process handed to the kernel to write, as that counts them.
private func written() -> UInt64? {
  KernelFile.text("/proc/self/io").flatMap { KernelFile.table($0)["wchar"] }
}

/// How large the file system in main memory is; `nil` where it has no limit of its own.
private func bytesOfSharedMemory() -> Int? {
  var status = statvfs()
  guard statvfs("/dev/shm", &status) == 0, status.f_blocks > 0, status.f_blocks < 1 << 32 else { return nil }
  let isMain = KernelFile.text("/proc/mounts")?.contains(" /dev/shm tmpfs ") ?? false
  return isMain ? Int(status.f_blocks) * Int(status.f_frsize) : nil
}

@Suite(.bounded) struct StoreTests {
  private let file = TemporaryPath()
  private var path: String { file.path }

  // R-MEM-05, R-MEM-06, R-MEM-07, R-LIFE-07
  @Test func whatIsSavedComesBackAndItsSpaceToo() throws {
    let size = 8 << 20
    var store: HibernationStore? = try HibernationStore(path: path, bytes: size)
    let empty = try #require(store?.freeBytes)
    let parts = [[1, 2, 3], noise(100_000, seed: 1), [], [UInt8](repeating: 0, count: 1_000_000)]
    try save(#require(store), "mail", parts)
    try save(#require(store), "game", [noise(5000, seed: 2)])
    // Nothing grows, and blocks are there before they are needed.
    var status = stat()
    #expect(stat(path, &status) == 0 && status.st_size == size && status.st_blocks * 512 >= size)
    store = nil
    store = try HibernationStore(path: path, bytes: size)
    #expect(store?.apps == ["mail", "game"] && store?.repairs == 0)
    #expect(try store?.load("mail") == parts)
    try store?.remove("mail")
    #expect(store?.apps == ["game"])
    #expect(throws: StoreError(.absent, "")) { try store?.load("mail") }
    try store?.remove("game")
    try store?.remove("game")
    #expect(store?.freeBytes == empty)
  }

  // R-MEM-05
  @Test func onlyWhatIsNotZeroTakesUpSpace() throws {
    let store = try HibernationStore(path: path, bytes: 8 << 20)
    // Of 1000 pages 10 are dirty.
    var pages = [UInt8](repeating: 0, count: 1000 * 4096)
    for page in 0..<10 {
      pages.replaceSubrange(page * 99 * 4096..<(page * 99 + 1) * 4096, with: noise(4096, seed: UInt64(page)))
    }
    let length = try pages.withUnsafeBytes { try store.save("app", [$0]) }
    #expect(length < 11 * 4096)
    #expect(try store.load("app") == [pages])
  }

  // R-MEM-05
  @Test(.enabled(if: written() != nil, "the kernel does not count what a process writes"))
  func ofAThousandPagesTenAreWritten() async {
    await #expect(processExitsWith: .exitCode(7)) {
      let folder = FileManager.default.temporaryDirectory.appending(path: "opportune-pages-\(UUID())")
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
      let file = folder.appending(path: "file")
      try Data(repeating: 1, count: 490 * pageSize).write(to: file)
      let broker = try makeBroker()
      let app = broker.makeMemory(named: "game")
      let clean = try app.map(file: file.path)
      let drawing = try app.purgeable(of: UInt8.self, count: 500 * pageSize)
      drawing.fill(3)
      let dirty = try app.allocate(bytes: 10 * pageSize)
      let state = noise(dirty.count, seed: 5)
      dirty.bytes.copyBytes(from: state)
      app.setStanding(.suspended)
      let page = UInt64(pageSize)
      require(
        app.ledger.handedOut == 1000 * page && app.ledger.unreconstitutable == 10 * page, "\(app.ledger)")
      let store = try HibernationStore(path: folder.appending(path: "store").path, bytes: 8 << 20)
      guard let before = written() else { _exit(2) }
      require(broker.purge(.max) == 500 * page, "what can be made again is dropped")
      try store.save("game", [UnsafeRawBufferPointer(dirty.bytes)])
      guard let after = written() else { _exit(2) }
      require(
        after - before >= 10 * page && after - before < 10 * page + 1024,
        "\(after - before) bytes were written")
      require(try store.load("game") == [state], "it comes back")
      withExtendedLifetime(clean) {}
      try FileManager.default.removeItem(at: folder)
      _exit(7)
    }
  }

  // R-MEM-06
  @Test func aFullStoreRefusesAndKeepsWhatItHas() throws {
    let store = try HibernationStore(path: path, bytes: HibernationStore.bytesMin + (64 << 10))
    try save(store, "old", [noise(10_000, seed: 1)])
    #expect(throws: StoreError(.full, "")) { try save(store, "big", [noise(100_000, seed: 2)]) }
    #expect(throws: StoreError(.full, "")) { try save(store, "old", [noise(100_000, seed: 3)]) }
    #expect(try store.load("old") == [noise(10_000, seed: 1)])
    try store.remove("old")
    try save(store, "new", [noise(50_000, seed: 2)])
    #expect(throws: StoreError(.argument, "")) { try save(store, String(repeating: "x", count: 256), []) }
    #expect(throws: StoreError(.argument, "")) {
      try HibernationStore(path: path, bytes: HibernationStore.bytesMin - 1)
    }
  }

  // R-MEM-06
  @Test func aStoreIsOnesOwn() throws {
    let first = try HibernationStore(path: path, bytes: 1 << 20)
    #expect(throws: StoreError(.locked, "")) { try HibernationStore(path: path, bytes: 1 << 20) }
    withExtendedLifetime(first) {}
  }

  /// It has the file open, and with it the lock.
  // R-MEM-06
  @Test func aChildOfAForkDoesNotWrite() async {
    await #expect(processExitsWith: .exitCode(7)) {
      let path = FileManager.default.temporaryDirectory.appending(path: "opportune-fork-\(UUID())").path
      let store = try HibernationStore(path: path, bytes: 1 << 20)
      func refusal(_ name: String, _ state: [UInt8]) -> StoreError.Code? {
        do {
          _ = try state.withUnsafeBytes { try store.save(name, [$0]) }
          return nil
        } catch { return (error as? StoreError)?.code }
      }
      // Once here, so that the child waits for no lock of the runtime.
      require(
        refusal("app", [1]) == nil && refusal(String(repeating: "x", count: 256), [1]) == .argument,
        "it saves")
      guard let symbol = dlsym(nil, "fork") else { _exit(2) }
      let child = unsafeBitCast(symbol, to: (@convention(c) () -> Int32).self)()
      if child == 0 {
        alarm(20)
        _exit(refusal("app", [2]) == .locked ? 3 : 4)
      }
      var status: Int32 = 0
      require(waitpid(child, &status, 0) == child && status == 3 << 8, "the child ended with \(status)")
      require(try store.load("app") == [[1]], "it is as it was")
      require(refusal("app", [3]) == nil, "the parent goes on")
      try FileManager.default.removeItem(atPath: path)
      _exit(7)
    }
  }

  // R-MEM-06
  @Test func truncatedGrownAndForeignFilesAreRefused() throws {
    do { try save(HibernationStore(path: path, bytes: 1 << 20), "app", [[1]]) }
    #expect(throws: StoreError(.otherSize, "")) { try HibernationStore(path: path, bytes: 2 << 20) }
    #expect(truncate(path, (1 << 20) - 1) == 0)
    #expect(throws: StoreError(.otherSize, "")) { try HibernationStore(path: path, bytes: 1 << 20) }
    // Cut or grown to what is asked for, it is still not what it was made as.
    #expect(truncate(path, 2 << 20) == 0)
    #expect(throws: StoreError(.otherSize, "")) { try HibernationStore(path: path, bytes: 2 << 20) }
    try Data(noise(1 << 20, seed: 4)).write(to: URL(fileURLWithPath: path))
    #expect(throws: StoreError(.damagedIndex, "")) { try HibernationStore(path: path, bytes: 1 << 20) }
    #expect(throws: StoreError.self) { try HibernationStore(path: "/nowhere/store", bytes: 1 << 20) }
  }

  // R-MEM-06
  @Test func anotherVersionIsRefused() throws {
    let disk = CrashDisk(size: 1 << 20)
    do { _ = try HibernationStore(disk) }
    for version in [1, UInt8(StoreIndex.version) + 1] {
      for slot in 0..<2 { disk.seen[slot * StoreIndex.slotBytes + 8] = version }
      #expect(throws: StoreError(.otherVersion, "")) { try HibernationStore(disk) }
    }
  }

  // R-MEM-06
  @Test func aStoreThatWasBeingMadeIsMadeAnew() throws {
    for left in [0, 1, StoreIndex.dataOffset - 1, StoreIndex.dataOffset, 1 << 19] {
      try Data(count: left).write(to: URL(fileURLWithPath: path))
      do { try save(HibernationStore(path: path, bytes: 1 << 20), "app", [[1]]) }
      #expect(
        try HibernationStore(path: path, bytes: 1 << 20).load("app") == [[1]], "\(left) bytes were there")
    }
    // What is not blank is somebody's.
    try Data([0, 0, 1]).write(to: URL(fileURLWithPath: path))
    #expect(throws: StoreError(.otherSize, "")) { try HibernationStore(path: path, bytes: 1 << 20) }
    #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == Data([0, 0, 1]))
    // Of the right size too.
    let other = Data("SQLite format 3".utf8) + Data(count: (1 << 20) - 15)
    try other.write(to: URL(fileURLWithPath: path))
    #expect(throws: StoreError(.damagedIndex, "")) { try HibernationStore(path: path, bytes: 1 << 20) }
    #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == other)
  }

  /// A copy, or what somebody else made, may be of the right size and have no blocks.
  // R-MEM-06
  @Test func theBlocksOfAFileWithHolesAreSetAside() throws {
    let size = 8 << 20
    func allocated() -> Int {
      var status = stat()
      return stat(path, &status) == 0 && status.st_size == size ? Int(status.st_blocks) * 512 : -1
    }
    for state in [nil, noise(5000, seed: 1)] {
      if let state { try save(HibernationStore(path: path, bytes: size), "app", [state]) }
      let start = state == nil ? Data() : try Data(contentsOf: URL(fileURLWithPath: path)).prefix(1 << 19)
      try start.write(to: URL(fileURLWithPath: path))
      #expect(truncate(path, size) == 0 && allocated() >= 0 && allocated() <= start.count)
      let store = try HibernationStore(path: path, bytes: size)
      #expect(allocated() >= size)
      if let state { #expect(try store.load("app") == [state] && store.repairs == 0) }
    }
  }

  /// More than the whole file system has: a file of that size with holes, and one that is to be made.
  // R-MEM-06
  @Test(.enabled(if: bytesOfSharedMemory() != nil, "there is no file system whose size is limited"))
  func aDiskWithoutRoomIsTold() throws {
    let path = "/dev/shm/opportune-store-\(UUID())"
    let size = try #require(bytesOfSharedMemory()) + (1 << 20)
    for left in [0, size] {
      try Data().write(to: URL(fileURLWithPath: path))
      #expect(truncate(path, left) == 0)
      #expect(throws: StoreError(.system(ENOSPC), "")) { try HibernationStore(path: path, bytes: size) }
      var status = stat()
      #expect(stat(path, &status) == 0 && status.st_size == left && status.st_blocks == 0)
    }
  }

  /// Says what is done to the disk, in order; may refuse to synchronise all of a file or of a folder.
  private final class Watched: StoreAccess, @unchecked Sendable {  // one thread's
    enum Call: Equatable {
      case all(of: ino_t)
      case data, write
    }
    var calls: [Call] = []
    var refuses: ino_t?

    func read(_ file: Int32, _ bytes: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
      pread(file, bytes.baseAddress, bytes.count, off_t(offset))
    }
    func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
      calls.append(.write)
      return pwrite(file, bytes.baseAddress, bytes.count, off_t(offset))
    }
    func synchronise(_ file: Int32) -> Int {
      calls.append(.data)
      return 0
    }
    func synchroniseAll(_ file: Int32) -> Int {
      var status = stat()
      fstat(file, &status)
      guard status.st_ino != refuses else { return -Int(EIO) }
      calls.append(.all(of: status.st_ino))
      return 0
    }
  }

  /// Else a crash takes the file, or its name, with all that was saved by then. Also where a crash cut the
  /// last opening short.
  // R-MEM-06, R-MEM-07
  @Test func theFileAndItsNameAreOnTheDiskBeforeAnythingIsWritten() throws {
    func number(_ path: String) throws -> ino_t {
      var status = stat()
      try #require(stat(path, &status) == 0)
      return status.st_ino
    }
    let folder = FileManager.default.temporaryDirectory.appending(path: "opportune-new-\(UUID())").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let path = folder + "/store"
    for isThere in [false, true] {
      let disk = Watched()
      let store = try HibernationStore(path: path, bytes: HibernationStore.bytesMin, access: disk)
      #expect(Array(disk.calls.prefix(2)) == [.all(of: try number(path)), .all(of: try number(folder))])
      #expect(disk.calls.contains(.write) == !isThere, "an index is written once")
      withExtendedLifetime(store) {}
    }
    for refused in [path, folder] {
      let disk = Watched()
      disk.refuses = try number(refused)
      let error = #expect(throws: StoreError.self) {
        try HibernationStore(path: path, bytes: HibernationStore.bytesMin, access: disk)
      }
      #expect(error?.code == .system(EIO) && !disk.calls.contains(.write))
      #expect(error?.description.contains(refused) == true)
    }
  }

  /// Once an index was not written, the disk may name what is not known here: nothing is written over that.
  // R-MEM-06, R-MEM-07
  @Test func afterAFailureNothingIsOverwritten() throws {
    let states = (1...3).map { noise(3000, seed: $0) }
    var generator = SplitMix64(seed: 7)
    var failures = 0
    while true {
      let disk = CrashDisk(size: HibernationStore.bytesMin + (64 << 10))
      let store = try HibernationStore(disk)
      try save(store, "app", [states[0]])
      disk.failsAfter = failures
      do {
        try save(store, "app", [states[1]])
        break
      } catch let error as StoreError { #expect(error.code == .system(EIO)) }
      disk.failsAfter = nil
      disk.sync()
      // The record and its synchronisation come before the index.
      if failures < 2 {
        try save(store, "app", [states[2]])
      } else {
        #expect(throws: StoreError(.system(EIO), "")) { try save(store, "app", [states[2]]) }
        #expect(throws: StoreError(.system(EIO), "")) { try store.remove("app") }
        #expect(try store.load("app") == [states[0]])
      }
      for image in disk.crashImages(using: &generator) {
        let left = try HibernationStore(CrashDisk(image)).load("app")
        #expect(states.map { [$0] }.contains(left), "call \(failures) failed")
      }
      failures += 1
    }
    #expect(failures == 6, "two calls for the record, and two for each copy of the index")
  }

  /// The program does more of it: `StoreCrash kills 2400 1 FOLDER`, `... machine` and `... machine large`. It
  /// finds fault with a store that lacks its synchronisations once the machine goes down with what it had not
  /// synchronised.
  // R-MEM-06, R-MEM-07
  @Test(
    .timeLimit(.minutes(3)),
    arguments: [
      ("program", 60, 0, "small"), ("machine", 60, 0, "small"), ("unsynchronised", 400, 3, "small"),
      ("machine", 16, 0, "large"),
    ])
  func aKilledProgramLeavesEachAppAsItWasOrAsItIs(crash: String, kills: Int, expected: Int32, size: String)
    throws
  {
    let folder = FileManager.default.temporaryDirectory.appending(path: "opportune-kills-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(at: folder) }
    #expect(try statusOfStoreCrash(["kills", "\(kills)", "1", folder.path, crash, size]) == expected)
  }

  /// Or what cannot be tried would pass for a store that was found wrong.
  // R-MEM-06
  @Test func aRunThatCannotBeDoneHasAnotherStatusThanOneThatFoundSomething() throws {
    #expect(try statusOfStoreCrash(["kills", "1", "1", "/nowhere", "unsynchronised"]) == 1)
    #expect(try statusOfStoreCrash(["kills", "1", "1", path, "program"]) == 1, "there is no such folder")
    #expect(try statusOfStoreCrash(["kills", "none", "1", "/tmp"]) == 1)
  }

  private func statusOfStoreCrash(_ words: [String]) throws -> Int32 {
    let path = try builtProgram("StoreCrash")
    var arguments = ([path] + words).map { strdup($0) } + [nil]
    defer { for argument in arguments { free(argument) } }
    var process: pid_t = 0
    let result = posix_spawn(&process, path, nil, nil, &arguments, environ)
    try #require(result == 0)
    var status: Int32 = -1
    while waitpid(process, &status, 0) < 0, errno == EINTR {}
    try #require(status & 0x7F == 0, "it was ended by signal \(status & 0x7F)")
    return status >> 8
  }

  /// Any single bit, anywhere: the app comes back as it was, or an error does.
  // R-MEM-06
  @Test(arguments: [1, 2, 3, 4] as [UInt64])
  func aFlippedBitIsNeverLoaded(seed: UInt64) throws {
    var generator = SplitMix64(seed: seed)
    let disk = CrashDisk(size: HibernationStore.bytesMin + (64 << 10))
    let state = noise(3000, seed: seed)
    do { try save(HibernationStore(disk), "app", [state]) }
    let whole = disk.seen
    let used = [
      0..<200, StoreIndex.slotBytes..<StoreIndex.slotBytes + 200,
      StoreIndex.dataOffset..<StoreIndex.dataOffset + 3100,
    ]
    var found = (whole: 0, repaired: 0, refused: 0)
    for _ in 0..<600 {
      disk.seen = whole
      let at = Int.random(in: used[Int.random(in: 0..<3, using: &generator)], using: &generator)
      disk.seen[at] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
      do {
        let store = try HibernationStore(disk)
        let loaded = try store.load("app")
        #expect(store.apps == ["app"] && loaded == [state], "seed \(seed), byte \(at)")
        if store.repairs > 0 { found.repaired += 1 } else { found.whole += 1 }
      } catch {
        #expect([.damagedRecord, .damagedIndex, .otherVersion].contains(error.code), "\(error)")
        found.refused += 1
      }
    }
    #expect(found.repaired > 0 && found.refused > 0, "\(found)")
  }

  /// At every write, whatever part of what was not synchronised a crash keeps: each app is as it was before
  /// the operation or after it.
  // R-MEM-06, R-MEM-07
  @Test(arguments: [1, 2, 3, 4, 5, 6] as [UInt64])
  func aCrashLeavesEachAppAsItWasOrAsItIs(seed: UInt64) throws {
    let faults = try crashes(seed: seed)
    #expect(faults.tried > 500)
    #expect(faults.found.isEmpty, "seed \(seed): \(faults.found.prefix(3))")
  }

  /// The same finds fault with a store that lacks any one of its synchronisations: of the record, and of each
  /// copy of the index.
  @Test(arguments: 0..<3) func theCrashTestSeesThatASynchronisationIsMissing(missing: Int) throws {
    var found = 0
    for seed in 1...6 as ClosedRange<UInt64> where found == 0 {
      found += try crashes(seed: seed, missing: missing).found.count
    }
    #expect(found > 0)
  }

  /// - Parameter missing: the synchronisation of each save that does nothing.
  private func crashes(seed: UInt64, missing: Int? = nil) throws -> (tried: Int, found: [String]) {
    var generator = SplitMix64(seed: seed)
    let disk = CrashDisk(size: HibernationStore.bytesMin + (96 << 10))
    let store = try HibernationStore(disk)
    disk.sync()
    var model: [String: [UInt8]] = [:]
    // Long enough for an index of several sectors, which can be torn.
    let names = (1...5).map { String(decoding: noise(250, seed: $0).map { 48 + $0 % 64 }, as: UTF8.self) }
    var (tried, found) = (0, [String]())
    for operation in 0..<40 {
      var next = model
      let app = names.randomElement(using: &generator) ?? "a"
      disk.begin()
      if model[app] != nil, Bool.random(using: &generator) {
        // There is no record to synchronise.
        disk.missing = missing.map { $0 - 1 }
        try store.remove(app)
        next[app] = nil
      } else {
        // Above 32 KiB it is not gathered with its table, but written from where it is.
        let state = noise(Int.random(in: 1...40_000, using: &generator), seed: generator.next())
        disk.missing = missing
        do {
          try save(store, app, [state])
          next[app] = state
        } catch let error as StoreError where error.code == .full {}
      }
      let images = disk.crashImages(using: &generator)
      for (number, image) in images.enumerated() {
        tried += 1
        let after = CrashDisk(image)
        do {
          let store = try HibernationStore(after)
          var left: [String: [UInt8]] = [:]
          for app in store.apps { left[app] = try store.load(app).first }
          if left != model, left != next { found.append("operation \(operation): neither before nor after") }
          if number >= images.count - CrashDisk.tries, left != next {
            found.append("operation \(operation): not kept")
          }
          // The space accounts: all of it comes back.
          for app in store.apps { try store.remove(app) }
          if store.freeBytes != image.count - StoreIndex.dataOffset {
            found.append("operation \(operation): space")
          }
        } catch {
          found.append("operation \(operation): \(error)")
        }
      }
      model = next
    }
    return (tried, found)
  }
}
