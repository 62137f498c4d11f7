import Foundation
import Opportune
import TestSupport
import Testing

/// An app with memory of each kind, all of it touched. What goes with it is released with the app's last reference.
private final class Hoarder: AppDelegate {
  private let blocks: [MemoryBlock]
  private let regions: [Purgeable<UInt8>]
  private let cache: PurgeableCache<Int>
  /// Where all that is, in addresses.
  let places: [Range<UInt>]

  init(_ memory: AppMemory, file: String, keeping: (Purgeable<UInt8>) -> Void) throws {
    var blocks = [try memory.allocate(bytes: size), try memory.map(file: file)]
    // Refused where nothing may be locked.
    if let wired = try? memory.allocate(bytes: 4096, isWired: true) { blocks.append(wired) }
    let regions = [
      try memory.purgeable(of: UInt8.self, count: size), try memory.purgeable(count: size, isVolatile: false),
      try memory.drawing(bytes: size),
    ]
    let cache: PurgeableCache<Int> = try memory.cache(costLimit: size)
    let shared = try memory.purgeable(of: UInt8.self, count: size, isVolatile: false)
    keeping(shared)
    var places: [Range<UInt>] = []
    for block in blocks {
      if block.kind == .clean {
        _ = block.bytes.reduce(0, &+)
      } else {
        block.bytes.initializeMemory(as: UInt8.self, repeating: 1)
      }
      places.append(place(UnsafeRawBufferPointer(block.bytes)))
    }
    for region in regions + [shared] {
      region.withContents { contents in
        switch contents {
        case .intact(let buffer), .purged(let buffer):
          buffer.update(repeating: 1)
          places.append(place(UnsafeRawBufferPointer(buffer)))
        }
      }
    }
    try [UInt8](repeating: 1, count: size).withUnsafeBytes { _ = try cache.insert($0, for: 1) }
    _ = cache.withBytes(of: 1) { places.append(place($0)) }
    (self.blocks, self.regions, self.cache, self.places) = (blocks, regions, cache, places)
  }
}

private struct Nobody: AppDelegate {}

private let size = 1 << 20

private func place(_ bytes: UnsafeRawBufferPointer) -> Range<UInt> {
  let start = UInt(bitPattern: bytes.baseAddress)
  return start..<start + UInt(bytes.count)
}

@Suite struct TerminatedMemoryTests {
  /// As the kernel counts pages; also of what somebody else still has hold of, which stays mapped.
  // R-LIFE-08, R-MEM-05, R-MEM-15
  @Test(.timeLimit(.minutes(1))) func aTerminatedAppsMemoryIsGoneToTheLastPage() async throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "opportune-hoard-\(UUID())").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    try Data(repeating: 7, count: size).write(to: URL(fileURLWithPath: path))
    let map = MemoryMap()
    let scheduler = try Scheduler()
    let memory = try HostMemory(scheduler)
    let host = try patientHost(scheduler: scheduler, brokers: [memory])
    try await memory.serve(host)
    let kept = AtomicBox<Purgeable<UInt8>?>(nil)
    let places = AtomicBox<[Range<UInt>]>([])
    let own = AtomicBox<AppMemory?>(nil)
    let app = await host.register(Manifest(identifier: "hoarder"), memory: memory) { _, given in
      own.change { $0 = given }
      guard let hoarder = try? Hoarder(given, file: path, keeping: { region in kept.change { $0 = region } }) else {
        return Nobody()
      }
      places.change { $0 = hoarder.places }
      return hoarder
    }
    try await host.launch(app)
    await wait(host, app, for: .active)
    try map.read()
    try #require(places.value.count >= 7)
    for place in places.value { #expect(map.resident(place) >= place.count) }
    try await host.terminate(app)
    await wait(host, app, for: .notRunning)
    // With the host's last reference to the delegate, but for what is kept here.
    let rest = UInt64(try #require(kept.value).bytes)
    try await until { own.value?.ledger.handedOut == rest }
    try map.read()
    for place in places.value { #expect(map.resident(place) == 0) }
    #expect(own.value?.ledger.purged == rest)
  }
}
