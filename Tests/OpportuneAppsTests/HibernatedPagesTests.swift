import Foundation
import TestSupport
import Testing

@testable import Opportune

/// Bytes that this process has made dirty in files of a disk, as the kernel counts them.
private func written() -> UInt64? {
  KernelFile.text("/proc/self/io").flatMap { KernelFile.table($0)["write_bytes"] }
}

private let page = sysconf(Int32(_SC_PAGESIZE))

/// Whether the kernel counts what is written to a folder, which it does not where that is in main memory.
private func countsPages(in folder: URL) -> Bool {
  let file = folder.appending(path: "opportune-counted-\(UUID())")
  defer { try? FileManager.default.removeItem(at: file) }
  guard let before = written(), (try? Data(repeating: 1, count: page).write(to: file)) != nil else {
    return false
  }
  return written().map { $0 - before >= page } ?? false
}

/// Nothing that compresses.
private func noise(of count: Int) -> [UInt8] {
  var generator = SplitMix64(seed: 5)
  return (0..<count / 8).flatMap { _ in withUnsafeBytes(of: generator.next()) { [UInt8]($0) } }
}

private func check(_ holds: Bool, _ what: @autoclosure () -> String) {
  guard !holds else { return }
  FileHandle.standardError.write(Data("does not hold: \(what())\n".utf8))
  _exit(1)
}

/// What hibernation writes, from the app to the disk.
@Suite(.bounded) struct HibernatedPagesTests {
  /// An app of 1,000 pages that do not compress: 10 are dirty, 490 a file's, and 500 can be made again. It
  /// names them all.
  private final class Game: HibernatingApp {
    let dirty: MemoryBlock
    let level: MemoryBlock
    let drawing: Purgeable<UInt8>
    let content: [UInt8]
    let comesBack: @Sendable () -> Void

    init(_ memory: AppMemory, file: String, comesBack: @escaping @Sendable () -> Void) throws {
      dirty = try memory.allocate(bytes: 10 * page)
      level = try memory.map(file: file)
      drawing = try memory.purgeable(count: 500 * page)
      content = noise(of: dirty.count)
      self.comesBack = comesBack
      dirty.bytes.copyBytes(from: content)
      drawing.withContents {
        if case .intact(let buffer) = $0 { _ = buffer.update(from: noise(of: 500 * page)) }
      }
    }

    func handOver() throws -> HandedState {
      HandedState([1], memory: [HeldMemory(dirty), HeldMemory(level), HeldMemory(drawing)])
    }
    func takeOver(_ state: HandedState) throws {
      check(dirty.bytes.elementsEqual(content) && drawing.isPurged, "it comes back")
      comesBack()
    }
  }

  /// In a process of its own, in which nothing else writes. Besides the ten: a page of the app's bytes, one
  /// of the record's table, one of each copy of the index, and up to two that the file system writes where
  /// blocks are used for the first time. Without a limit of its own: each synchronisation of the disk may
  /// wait for what others have written.
  // R-MEM-05, R-LIFE-07
  @Test(
    .enabled(
      if: countsPages(in: FileManager.default.temporaryDirectory), "nobody counts what reaches the disk"))
  func ofAThousandPagesTheTenThatAreDirtyReachTheDisk() async {
    await #expect(processExitsWith: .exitCode(7)) {
      let folder = FileManager.default.temporaryDirectory.appending(path: "opportune-pages-\(UUID())")
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
      let file = folder.appending(path: "level")
      try Data(noise(of: 490 * page)).write(to: file)
      let (stored, told) = AsyncStream.makeStream(of: MemoryEvent.self)
      let scheduler = try Scheduler()
      let store = try HibernationStore(path: folder.appending(path: "store").path, bytes: 8 << 20)
      // Of the machine's memory others may use so much that apps are removed.
      var configuration = MemoryConfiguration()
      configuration.limit = .budget(1 << 40)
      let memory = try HostMemory(
        scheduler: scheduler, configuration: configuration, store: store, io: IOBroker(),
        report: { if case .level = $0 {} else { told.yield($0) } })
      let host = try patientHost(scheduler: scheduler, brokers: [memory])
      try await memory.serve(host)
      let kept = AtomicBox<AppMemory?>(nil)
      let (back, isBack) = AsyncStream.makeStream(of: Void.self)
      let id = await host.register(Manifest(identifier: "game"), memory: memory) { _, own in
        kept.change { $0 = own }
        return (try? Game(own, file: file.path) { isBack.yield() }) ?? Silent()
      }
      try await launchAndWait(host, id)
      try await leaveAndWait(host, id)
      let held = kept.value?.ledger
      check(
        held?.handedOut == UInt64(1000 * page) && held?.unreconstitutable == UInt64(10 * page),
        "\(held as Any)")
      guard let before = written() else { _exit(2) }
      try await host.post(.app(id, .hibernate))
      var events = stored.makeAsyncIterator()
      guard case .stored(id, _, _) = await events.next(), let after = written() else { _exit(3) }
      let pages = (Int(after - before) + page - 1) / page
      check((10...16).contains(pages), "\(pages) pages were written")
      try await host.bringForward(id)
      for await _ in back { break }
      try FileManager.default.removeItem(at: folder)
      _exit(7)
    }
  }
}
