import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Opportune

/// An app with state of each kind; it reports its callbacks, in order.
private final class Notes: HibernatingApp {
  struct Content: Codable, Sendable, Equatable {
    var lines: [String]
    var cursor: Int
  }
  enum Refusal: Error { case refused }

  let block: MemoryBlock
  let pinned: Purgeable<UInt8>
  let volatile: Purgeable<UInt8>
  private let app: HostedApp
  let content: AtomicBox<Content?>
  let journal: AtomicBox<[String]>
  let refuses: Bool

  init(_ app: HostedApp, _ memory: AppMemory, content: Content, refuses: Bool = false) throws {
    self.app = app
    self.content = AtomicBox(content)
    self.refuses = refuses
    journal = AtomicBox([])
    block = try memory.allocate(bytes: megabyte)
    pinned = try memory.purgeable(of: UInt8.self, count: megabyte, isVolatile: false)
    volatile = try memory.purgeable(of: UInt8.self, count: megabyte)
    fill(block.bytes, noises[0])
    pinned.withContents { if case .intact(let buffer) = $0 { fill(.init(buffer), noises[1]) } }
    volatile.withContents {
      if case .intact(let buffer) = $0, let start = buffer.baseAddress { memset(start, 3, buffer.count) }
    }
  }

  private func note(_ text: String) { journal.change { $0.append(text) } }
  func willEnterForeground() async { note("willEnterForeground") }
  func didBecomeActive() async { note("didBecomeActive") }
  func didReceive(_ notice: AppNotice) async { if case .message = notice { note("message") } }
  func didReceiveMemoryWarning() async { note("warning") }

  func handOver() throws -> HandedState {
    note("handOver \(app.app.activity == .suspended)")
    guard !refuses else { throw Refusal.refused }
    defer { content.change { $0 = nil } }
    return try HandedState(encoding: content.value, memory: [HeldMemory(block), HeldMemory(pinned)])
  }

  func takeOver(_ state: HandedState) throws {
    note("takeOver")
    let value: Content = try state.decoded()
    content.change { $0 = value }
  }

  /// Whether all that was handed over is as it was.
  func isWhole(_ expected: Content) -> Bool {
    content.value == expected && isSame(block.bytes, noises[0])
      && pinned.withContents {
        if case .intact(let buffer) = $0 { isSame(.init(buffer), noises[1]) } else { false }
      }
  }
}

private func noise(_ count: Int, seed: UInt64) -> [UInt8] {
  var generator = SplitMix64(seed: seed)
  return (0..<count / 8).flatMap { _ in withUnsafeBytes(of: generator.next()) { [UInt8]($0) } }
}

/// By one call: element by element a megabyte takes seconds under the thread sanitizer.
private func fill(_ buffer: UnsafeMutableRawBufferPointer, _ bytes: [UInt8]) {
  bytes.withUnsafeBytes { buffer.copyMemory(from: $0) }
}

private func isSame(_ left: UnsafeMutableRawBufferPointer, _ right: [UInt8]) -> Bool {
  guard let start = left.baseAddress, left.count == right.count else { return false }
  return memcmp(start, right, right.count) == 0
}

/// A value that a test and its apps share; few touch it, and briefly.
final class AtomicBox<Value: Sendable>: @unchecked Sendable {
  private let lock = NSLock()
  private var stored: Value
  init(_ value: Value) { stored = value }
  var value: Value { lock.withLock { stored } }
  func change(_ body: (inout Value) -> Void) { lock.withLock { body(&stored) } }
}

private let megabyte = 1 << 20
/// Nothing that compresses.
private let noises = [noise(megabyte, seed: 1), noise(megabyte, seed: 2)]
private let content = Notes.Content(lines: ["milk", "bread"], cursor: 7)

@Suite(.bounded) struct HostMemoryTests {
  private let file = TemporaryPath()
  private var path: String { file.path }

  /// A host, its memory under a budget of 16 MiB, and what is reported.
  private struct Rig {
    let host: AppHost
    let memory: HostMemory
    let events: AsyncStream<MemoryEvent>
  }

  private func rig(
    store bytes: Int? = 64 << 20, io: IOBroker? = nil, _ change: (inout RemovalPolicy) -> Void = { _ in }
  ) async throws -> Rig {
    var configuration = MemoryConfiguration()
    configuration.limit = .budget(UInt64(16 * megabyte))
    var removal = RemovalPolicy()
    change(&removal)
    configuration.removal = removal
    let scheduler = try Scheduler()
    let (events, continuation) = AsyncStream.makeStream(of: MemoryEvent.self)
    let report: @Sendable (MemoryEvent) -> Void = { continuation.yield($0) }
    let memory =
      if let bytes {
        try HostMemory(
          scheduler: scheduler, configuration: configuration,
          store: HibernationStore(path: path, bytes: bytes), io: io,
          report: report)
      } else {
        try HostMemory(scheduler: scheduler, configuration: configuration, report: report)
      }
    let host = try patientHost(scheduler: scheduler, brokers: [memory])
    try await memory.serve(host)
    return Rig(host: host, memory: memory, events: events)
  }

  /// Launches an app that holds 2 MiB to keep and 1 MiB to make again.
  private func launch(
    _ rig: Rig, _ name: String, refuses: Bool = false
  ) async throws -> (id: AppID, lives: AtomicBox<[Notes]>, memory: AtomicBox<AppMemory?>) {
    let lives = AtomicBox<[Notes]>([])
    let memory = AtomicBox<AppMemory?>(nil)
    let id = await rig.host.register(Manifest(identifier: name), memory: rig.memory) { app, own in
      memory.change { $0 = own }
      guard let notes = try? Notes(app, own, content: content, refuses: refuses) else { return Silent() }
      lives.change { $0.append(notes) }
      return notes
    }
    try await launchAndWait(rig.host, id)
    return (id, lives, memory)
  }

  /// Has an app leave the front, and its state written to the store.
  private func hibernate(_ rig: Rig, _ id: AppID) async throws {
    try await leaveAndWait(rig.host, id)
    try await rig.host.post(.app(id, .hibernate))
    guard case .stored(id, _, _) = await next(rig) else { throw Failure("nothing was stored") }
  }

  /// Takes so much memory in front that somebody has to go.
  private func press(
    _ rig: Rig, megabytes: Int = 11
  ) async throws -> (id: AppID, blocks: AtomicBox<[MemoryBlock]>) {
    let blocks = AtomicBox<[MemoryBlock]>([])
    let id = await rig.host.register(Manifest(identifier: "game"), memory: rig.memory) { _, own in
      blocks.change { blocks in
        blocks = (0..<megabytes).compactMap { _ in try? own.allocate(bytes: megabyte) }
      }
      return Silent()
    }
    try await rig.host.launch(id)
    return (id, blocks)
  }

  private struct Shown: AppDelegate {
    func snapshot() -> [UInt8]? { [1] }
  }

  /// The next event that says something of hibernation or removal.
  private func next(_ rig: Rig) async -> MemoryEvent? {
    for await event in rig.events { if case .level = event { continue } else { return event } }
    return nil
  }

  // R-MEM-01, R-MEM-05, R-MEM-07, R-LIFE-06, R-LIFE-07
  @Test(.timeLimit(.minutes(1)), arguments: [true, false])
  func pressureHibernatesASuspendedAppAndItComesBackAsItWas(byMessage: Bool) async throws {
    let rig = try await rig()
    let app = try await launch(rig, "notes")
    try await leaveAndWait(rig.host, app.id)
    let log = await rig.host.observe()
    let game = try await press(rig)
    guard case .removal(app.id, let removal) = await next(rig) else { throw Failure("nobody was chosen") }
    #expect(removal.method == .hibernate)
    #expect(removal.reason.hasPrefix("notes was hibernated, suspended with 2.1 MB, because"))
    guard case .stored(app.id, _, let bytes) = await next(rig) else { throw Failure("nothing was stored") }
    #expect(bytes > 2 * megabyte && bytes < 2 * megabyte + 8192)
    #expect(await rig.host.state(of: app.id) == .hibernated)
    #expect(app.memory.value?.ledger.inUse == 0)
    let notes = try #require(app.lives.value.first)
    #expect(notes.content.value == nil)
    #expect(notes.journal.value.last(where: { $0 != "warning" }) == "handOver true")
    game.blocks.change { $0 = [] }

    if byMessage {
      try await rig.host.post(.app(app.id, .message(Message("mail"))))
    } else {
      try await rig.host.bringForward(app.id)
      await wait(rig.host, app.id, for: .active)
    }
    guard case .restored(app.id, _) = await next(rig) else { throw Failure("it did not come back") }
    #expect(notes.isWhole(content))
    #expect(notes.volatile.isPurged && app.lives.value.count == 1)
    let expected = ["takeOver"] + (byMessage ? ["message"] : ["willEnterForeground", "didBecomeActive"])
    // Of the shortage that is over it may hear late.
    func after() -> [String] {
      notes.journal.value.drop { !$0.hasPrefix("handOver") }.dropFirst().filter { $0 != "warning" }
    }
    try await until { after().count >= expected.count }
    #expect(after() == expected)
    // The table was asked, and nothing went round it.
    for await entry in log where entry.app == app.id {
      guard case .moved(let from, let to, let event) = entry.action else { continue }
      #expect(from == .suspended && to == .hibernated && event == .hibernate)
      break
    }
  }

  /// It has let go of it, though it does not say so: who comes next is not removed for it.
  // R-MEM-01, R-MEM-05, R-MEM-07
  @Test(.timeLimit(.minutes(1))) func whatAHibernatedAppHeldOutsideDoesNotCount() async throws {
    let rig = try await rig()
    let app = try await launch(rig, "notes")
    let memory = try #require(app.memory.value)
    try memory.setOutside(bytes: UInt64(megabyte))
    try await leaveAndWait(rig.host, app.id)
    try await rig.host.post(.app(app.id, .hibernate))
    let event = await next(rig)
    guard case .stored(app.id, _, _) = event else { throw Failure("nothing was stored") }
    #expect(event?.description.hasPrefix("\(app.id): notes is in the hibernation store, in ") == true)
    #expect(event?.app == app.id && memory.ledger.inUse == 0)
    try await rig.host.bringForward(app.id)
    let back = await next(rig)
    guard case .restored(app.id, _) = back else { throw Failure("it did not come back") }
    #expect(back?.description == "\(app.id): notes is back from the hibernation store")
    #expect(memory.ledger.dirty == UInt64(2 * megabyte), "its block, and what it held outside")
    try await hibernate(rig, app.id)
    try await rig.host.terminate(app.id)
    await wait(rig.host, app.id, for: .notRunning)
    #expect(memory.ledger.inUse == 0 && rig.memory.broker.ledger.inUse == 0)
  }

  // R-MEM-05, R-MEM-07, R-DISK-01
  @Test(.timeLimit(.minutes(1)), arguments: [IOConfiguration.Backend.automatic, .threads])
  func theStoreIsWrittenInBackgroundAndReadInForeground(backend: IOConfiguration.Backend) async throws {
    var configuration = IOConfiguration()
    configuration.backend = backend
    let io = try IOBroker(configuration: configuration)
    let rig = try await rig(io: io)
    let app = try await launch(rig, "notes")
    try await hibernate(rig, app.id)
    #expect(app.memory.value?.ledger.inUse == 0, "what can be made again went unwritten")
    let written = try await io.statistics()
    #expect(written.background.bytesWritten >= 2 * megabyte && written.background.completed >= 6)
    #expect(written.foreground.bytesWritten == 0 && written.foreground.submitted == 0)
    #expect(written.background.bytesRead == 0 && written.foreground.bytesRead == 0)
    try await rig.host.bringForward(app.id)
    guard case .restored(app.id, _) = await next(rig) else { throw Failure("it did not come back") }
    let read = try await io.statistics()
    #expect(read.foreground.bytesRead >= 2 * megabyte && read.background.bytesRead == 0)
    #expect(read.foreground.bytesWritten == 0)
    #expect(app.lives.value.first?.isWhole(content) == true && app.lives.value.count == 1)
  }

  /// A synchronisation is the broker's too, and says where the kernel refuses.
  // R-MEM-06
  @Test func theStoresSynchronisationGoesOverTheBroker() throws {
    let io = try IOBroker()
    let access = BrokeredAccess(
      writer: try io.makeApp(named: "hibernation", state: .background),
      reader: try io.makeApp(named: "reanimation"))
    let file = try #require(fopen("/dev/null", "r"))
    let descriptor = dup(fileno(file))
    fclose(file)
    #expect(
      access.synchronise(descriptor) == -Int(EINVAL), "a device without a disk has nothing to synchronise")
    close(descriptor)
  }

  /// The store has room for one app: that of an earlier run of the program has to go.
  // R-MEM-06
  @Test(.timeLimit(.minutes(1))) func whatAnEarlierRunLeftIsForgotten() async throws {
    let bytes = 4 * megabyte
    do {
      let store = try HibernationStore(path: path, bytes: bytes)
      try noises[0].withUnsafeBytes { first in
        _ = try noises[1].withUnsafeBytes { try store.save("old", [first, $0]) }
      }
    }
    let rig = try await rig(store: bytes)
    let app = try await launch(rig, "notes")
    try await hibernate(rig, app.id)
  }

  // R-MEM-06, R-MEM-04
  @Test(.timeLimit(.minutes(1))) func whatTheIOBrokerDoesNotWriteIsTerminated() async throws {
    let io = try IOBroker()
    let rig = try await rig(io: io)
    let app = try await launch(rig, "notes")
    try await leaveAndWait(rig.host, app.id)
    await io.shutdown()
    try await rig.host.post(.app(app.id, .hibernate))
    guard case .notStored(app.id, _, let reason) = await next(rig) else { throw Failure("it was stored") }
    #expect(reason.contains("was not written"))
    await wait(rig.host, app.id, for: .notRunning)
  }

  /// An app that has nothing but an image of a page and a byte.
  private struct Painter: HibernatingApp {
    static let image = [UInt8](repeating: 7, count: 4097)
    func snapshot() -> [UInt8]? { Self.image }
    func handOver() throws -> HandedState { HandedState([1]) }
    func takeOver(_ state: HandedState) throws {}
  }

  // R-LIFE-20, R-MEM-05
  @Test(.timeLimit(.minutes(1))) func imagesForTheSwitcherArePurgeable() async throws {
    let rig = try await rig()
    let kept = AtomicBox<AppMemory?>(nil)
    let id = await rig.host.register(Manifest(identifier: "painter"), memory: rig.memory) { _, own in
      kept.change { $0 = own }
      return Painter()
    }
    func suspend() async throws {
      await wait(rig.host, id, for: .active)
      try await leaveAndWait(rig.host, id)
    }
    try await rig.host.launch(id)
    try await suspend()
    let memory = try #require(kept.value)
    #expect(await rig.host.snapshot(of: id) == Painter.image)
    let held = memory.ledger.volatile
    #expect(held > 4096)
    // Hibernated, it still shows; its state is in the store.
    try await rig.host.post(.app(id, .hibernate))
    guard case .stored(id, _, _) = await next(rig) else { throw Failure("nothing was stored") }
    #expect(await rig.host.snapshot(of: id) == Painter.image)
    // Pressure takes it, and nobody is removed for it.
    #expect(rig.memory.broker.purge(1) == held)
    #expect(await rig.host.snapshot(of: id) == nil)
    #expect(await rig.host.snapshot(of: id) == nil, "what was looked at is not taken for an image")
    #expect(memory.ledger.inUse == 0)

    try await rig.host.bringForward(id)
    try await suspend()
    #expect(await rig.host.snapshot(of: id) == Painter.image)
    await rig.host.purgeSnapshots()
    #expect(await rig.host.snapshot(of: id) == nil)
    try await rig.host.bringForward(id)
    try await suspend()
    try await rig.host.terminate(id)
    await wait(rig.host, id, for: .notRunning)
    #expect(await rig.host.snapshot(of: id) == nil && memory.ledger.handedOut == 0)
  }

  // R-LIFE-20, R-MEM-01
  @Test(.timeLimit(.minutes(1)), arguments: [true, false])
  func theImageOfWhoIsAwayGoesOnlyWhenMemoryIsCritical(isKeptByBroker: Bool) async throws {
    let rig = try await rig()
    func show(_ name: String) async throws -> AppID {
      let id =
        if isKeptByBroker {
          await rig.host.register(Manifest(identifier: name), memory: rig.memory) { _, _ in Painter() }
        } else {
          await rig.host.register(Manifest(identifier: name)) { _ in Painter() }
        }
      try await rig.host.launch(id)
      try await suspend(id)
      return id
    }
    func suspend(_ id: AppID) async throws {
      await wait(rig.host, id, for: .active)
      try await leaveAndWait(rig.host, id)
    }
    func images(_ ids: [AppID]) async -> [Bool] {
      var found: [Bool] = []
      for id in ids { found.append(await rig.host.snapshot(of: id) == Painter.image) }
      return found
    }
    let (away, near) = (try await show("away"), try await show("near"))
    try await rig.host.post(.app(away, .hibernate))
    await wait(rig.host, away, for: .hibernated)
    #expect(await images([away, near]) == [true, true])
    await rig.memory.hear(.warning, on: rig.host)
    #expect(await images([away, near]) == [true, false], "who is in memory takes its own again")
    await rig.memory.hear(.critical, on: rig.host)
    #expect(await images([away, near]) == [false, false])
    try await rig.host.bringForward(near)
    try await suspend(near)
    await rig.memory.hear(.warning, on: rig.host)
    #expect(await images([near]) == [true], "it becomes better")
    await rig.memory.hear(.normal, on: rig.host)
    await rig.memory.hear(.warning, on: rig.host)
    #expect(await images([near]) == [false], "and worse again")
  }

  /// The store has room for two, and one goes and comes again and again.
  // R-MEM-07
  @Test(.timeLimit(.minutes(1))) func theSpaceOfWhoIsBackIsFree() async throws {
    let rig = try await rig(store: 6 * megabyte)
    let app = try await launch(rig, "notes")
    for round in 0..<5 {
      try await leaveAndWait(rig.host, app.id)
      try await rig.host.post(.app(app.id, .hibernate))
      guard case .stored(app.id, _, _) = await next(rig) else {
        throw Failure("nothing was stored in round \(round)")
      }
      try await rig.host.bringForward(app.id)
      guard case .restored(app.id, _) = await next(rig) else { throw Failure("it did not come back") }
      await wait(rig.host, app.id, for: .active)
    }
  }

  /// However far the store has come when it is wanted.
  // R-MEM-07
  @Test(.timeLimit(.minutes(1))) func anAppThatIsWantedBackAtOnceIsWhole() async throws {
    let rig = try await rig()
    let app = try await launch(rig, "notes")
    let notes = try #require(app.lives.value.first)
    for _ in 0..<20 {
      try await leaveAndWait(rig.host, app.id)
      try await rig.host.post(.app(app.id, .hibernate))
      try await rig.host.bringForward(app.id)
      await wait(rig.host, app.id, for: .active)
      #expect(notes.isWhole(content))
    }
    #expect(app.lives.value.count == 1)
    #expect(app.memory.value?.ledger.dirty == UInt64(megabyte))
  }

  /// It goes on its way back once more, and comes back again.
  // R-MEM-07
  @Test(.timeLimit(.minutes(1))) func anAppThatGoesAgainBeforeItIsBackIsWhole() async throws {
    let rig = try await rig()
    let app = try await launch(rig, "notes")
    let notes = try #require(app.lives.value.first)
    try await hibernate(rig, app.id)
    try await rig.host.bringForward(app.id)
    #expect(await rig.host.app(app.id)?.app.activity == .suspended || notes.isWhole(content))
    try await leaveAndWait(rig.host, app.id)
    try await rig.host.post(.app(app.id, .hibernate))
    try await rig.host.bringForward(app.id)
    await wait(rig.host, app.id, for: .active)
    #expect(notes.isWhole(content) && app.lives.value.count == 1)
  }

  // R-MEM-06, R-MEM-04
  @Test(.timeLimit(.minutes(1)), arguments: ["full", "none", "refused"])
  func whatCannotBeHibernatedIsTerminated(why: String) async throws {
    let sizes = ["full": megabyte, "refused": 64 * megabyte]
    let rig = try await rig(store: sizes[why])
    let app = try await launch(rig, "notes", refuses: why == "refused")
    try await leaveAndWait(rig.host, app.id)
    let game = try await press(rig)
    guard case .removal(app.id, let removal) = await next(rig) else { throw Failure("nobody was chosen") }
    #expect(removal.method == .hibernate)
    guard case .notStored(app.id, _, let reason) = await next(rig) else { throw Failure("it was stored") }
    #expect(reason.contains(["full": "does not fit", "none": "no store", "refused": "refused"][why] ?? "?"))
    await wait(rig.host, app.id, for: .notRunning)
    game.blocks.change { $0 = [] }
    try await launchAndWait(rig.host, app.id)
    #expect(app.lives.value.count == 2)
  }

  /// Nobody chose it: the table moves it, as where a pause hibernates.
  // R-MEM-04, R-LIFE-07
  @Test(.timeLimit(.minutes(1)), arguments: [true, false])
  func whoCannotBeHibernatedIsToldAndTerminated(hasStore: Bool) async throws {
    let rig = try await rig(store: hasStore ? 4 * megabyte : nil)
    let id =
      if hasStore {
        await rig.host.register(Manifest(identifier: "nobody"), memory: rig.memory) { _, _ in Silent() }
      } else {
        await rig.host.register(Manifest(identifier: "holder"), memory: rig.memory) { _, _ in Holder() }
      }
    try await launchAndWait(rig.host, id)
    try await leaveAndWait(rig.host, id)
    try await rig.host.post(.app(id, .hibernate))
    guard case .notStored(id, _, let reason) = await next(rig) else { throw Failure("nothing was told") }
    #expect(reason == (hasStore ? "it hands nothing over" : "there is no store"))
    await wait(rig.host, id, for: .notRunning)
  }

  // R-MEM-06, R-MEM-07
  @Test(.timeLimit(.minutes(1))) func whatWasDamagedInTheStoreIsNeverLoaded() async throws {
    let rig = try await rig()
    let app = try await launch(rig, "notes")
    try await hibernate(rig, app.id)
    let file = try #require(FileHandle(forUpdatingAtPath: path))
    try file.seek(toOffset: 1 << 20)
    try file.write(contentsOf: [UInt8](repeating: 0, count: 4096))
    try await rig.host.bringForward(app.id)
    guard case .notRestored(app.id, _, _) = await next(rig) else { throw Failure("it was loaded") }
    await wait(rig.host, app.id, for: .active)
    // It begins anew.
    #expect(app.lives.value.count == 2)
    #expect(app.lives.value.first?.journal.value.contains("takeOver") == false)
    #expect(app.lives.value.last?.isWhole(content) == true)
  }

  // R-LIFE-08, R-MEM-01
  @Test(.timeLimit(.minutes(1))) func theMemoryOfATerminatedAppIsTakenBack() async throws {
    let rig = try await rig(store: nil)
    let app = try await launch(rig, "notes")
    // Somebody else keeps hold of it.
    let notes = try #require(app.lives.value.first)
    try app.memory.value?.setOutside(bytes: 5000)
    #expect(app.memory.value?.ledger.pinned == UInt64(megabyte))
    try await rig.host.terminate(app.id)
    await wait(rig.host, app.id, for: .notRunning)
    #expect(app.memory.value?.standing == .gone)
    #expect(notes.pinned.isPurged && notes.volatile.isPurged)
    // The block goes with its last holder.
    #expect(app.memory.value?.ledger.inUse == UInt64(megabyte))
    #expect(notes.pinned.withContents { if case .purged = $0 { true } else { false } })
  }

  /// Hands over nothing that is large.
  private struct Holder: HibernatingApp {
    func handOver() throws -> HandedState { HandedState([1]) }
    func takeOver(_ state: HandedState) throws {}
  }

  // R-MEM-01
  @Test(.timeLimit(.minutes(1)), arguments: [true, false])
  func whatAGoneAppKeepsIsMadeUpForByOthers(isHibernated: Bool) async throws {
    let rig = try await rig()
    let kept = AtomicBox<[MemoryBlock]>([])
    let holder = await rig.host.register(Manifest(identifier: "holder"), memory: rig.memory) { _, own in
      if let block = try? own.allocate(bytes: 6 * megabyte) { kept.change { $0.append(block) } }
      return Holder()
    }
    try await launchAndWait(rig.host, holder)
    try await leaveAndWait(rig.host, holder)
    if isHibernated {
      try await rig.host.post(.app(holder, .hibernate))
      guard case .stored(holder, _, _) = await next(rig) else { throw Failure("nothing was stored") }
    } else {
      try await rig.host.terminate(holder)
      await wait(rig.host, holder, for: .notRunning)
    }
    let app = try await launch(rig, "notes")
    try await leaveAndWait(rig.host, app.id)
    let game = try await press(rig, megabytes: 5)
    guard case .removal(app.id, _) = await next(rig) else { throw Failure("nobody was chosen") }
    withExtendedLifetime((kept, game)) {}
  }

  // R-MEM-01, R-LIFE-20
  @Test(.timeLimit(.minutes(1))) func pressureWarnsWhoeverCanActAndTakesImages() async throws {
    let rig = try await rig(store: nil)
    let shown = try await launchAndWait(rig.host, Manifest(identifier: "shown")) { _ in Shown() }
    try await leaveAndWait(rig.host, shown)
    #expect(await rig.host.snapshot(of: shown.id) == [1])
    let app = try await launch(rig, "notes")
    let block = try app.memory.value?.allocate(bytes: 7 * megabyte)
    let notes = try #require(app.lives.value.first)
    try await until { notes.journal.value.contains("warning") }
    #expect(await rig.host.snapshot(of: shown.id) == nil)
    withExtendedLifetime(block) {}
  }

  // R-MEM-08
  @Test(.timeLimit(.minutes(1))) func whoIsNotUsedForLongIsHibernatedWithoutPressure() async throws {
    let rig = try await rig { $0.idleLimit = .milliseconds(20) }
    let app = try await launch(rig, "notes")
    try await rig.host.leave(app.id)
    await wait(rig.host, app.id, for: .hibernated)
    guard case .removal(app.id, let removal) = await next(rig) else { throw Failure("nobody was chosen") }
    #expect(removal.reason.contains("it was not in front for more than 0.02 seconds"))
  }

  /// Without pressure it comes back as it was; under pressure, later, it ends.
  // R-MEM-08
  @Test(.timeLimit(.minutes(1)), arguments: [true, false])
  func whoIsIdleStaysWithItsStateWhereItIsNotSaved(isRefused: Bool) async throws {
    let rig = try await rig(store: isRefused ? 64 * megabyte : megabyte) { $0.idleLimit = .milliseconds(20) }
    let app = try await launch(rig, "notes", refuses: isRefused)
    let notes = try #require(app.lives.value.first)
    func idle() async throws {
      try await rig.host.leave(app.id)
      guard case .removal(app.id, let removal) = await next(rig) else { throw Failure("nobody was chosen") }
      #expect(removal.isOptional)
      guard case .notStored(app.id, _, _) = await next(rig) else { throw Failure("it was stored") }
      #expect(await rig.host.state(of: app.id) == .hibernated)
      #expect(app.memory.value?.standing == .suspended)
      #expect(app.memory.value?.ledger.inUse == UInt64(2 * megabyte))
    }
    try await idle()
    rig.memory.broker.removeOverdue()
    try await rig.host.bringForward(app.id)
    await wait(rig.host, app.id, for: .active)
    if !isRefused {
      guard case .restored(app.id, _) = await next(rig) else { throw Failure("it has nothing back") }
    }
    #expect(notes.isWhole(content) && app.lives.value.count == 1)
    try await idle()
    let game = try await press(rig)
    guard case .removal(app.id, let removal) = await next(rig) else { throw Failure("nobody was chosen") }
    #expect(!removal.isOptional)
    guard case .notStored(app.id, _, _) = await next(rig) else { throw Failure("it was stored") }
    await wait(rig.host, app.id, for: .notRunning)
    withExtendedLifetime(game) {}
  }

  // R-MEM-11, R-MEM-12
  @Test func whatKeepsAnAppInBackgroundDecidesWhenItGoes() throws {
    var system = try AppSystem()
    let manifest = Manifest(identifier: "player", backgroundModes: [.audio, .location])
    let id = system.register(manifest)
    func standing() -> AppStanding? { system.snapshot(of: id).map(AppStanding.init) }
    #expect(standing() == .gone)
    _ = try system.handle(.app(id, .launch), at: .zero)
    #expect(standing() == .inactive)
    _ = try system.handle(.app(id, .returned(.didFinishLaunching)), at: .zero)
    #expect(standing() == .active)
    _ = try system.handle(.app(id, .trackingBegan), at: .zero)
    _ = try system.handle(.app(id, .does(.audioBegan(.play))), at: .zero)
    _ = try system.handle(.app(id, .leave), at: .zero)
    #expect(standing() == .audio)
    _ = try system.handle(.app(id, .does(.audioEnded)), at: .zero)
    #expect(standing() == .tracking)
  }
}
