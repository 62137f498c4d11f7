import Foundation
import Opportune
import TestSupport
import Testing

/// An app with memory of each kind, all of it touched. Its memory is released with the app's last reference.
private final class Hoarder: AppDelegate {
  private let blocks: [MemoryBlock]
  private let regions: [Purgeable<UInt8>]
  private let cache: PurgeableCache<Int>
  /// Where the regions are, in addresses.
  let places: [Range<UInt>]

  init(_ memory: AppMemory, file: String, keeping: ([Purgeable<UInt8>]) -> Void) throws {
    var blocks = [try memory.allocate(bytes: size), try memory.map(file: file)]
    // Refused where nothing may be locked.
    if let wired = try? memory.allocate(bytes: size, isWired: true) { blocks.append(wired) }
    let regions = [
      try memory.purgeable(of: UInt8.self, count: size), try memory.purgeable(count: size, isVolatile: false),
      try memory.drawing(bytes: size),
    ]
    let cache: PurgeableCache<Int> = try memory.cache(costLimit: size)
    keeping(regions)
    var places: [Range<UInt>] = []
    for block in blocks {
      if block.kind == .clean {
        _ = block.bytes.reduce(0, &+)
      } else {
        block.bytes.initializeMemory(as: UInt8.self, repeating: 1)
      }
    }
    for region in regions {
      region.withContents { contents in
        switch contents {
        case .intact(let buffer), .purged(let buffer):
          buffer.update(repeating: 1)
          places.append(place(UnsafeRawBufferPointer(buffer)))
        }
      }
    }
    try [UInt8](repeating: 1, count: size).withUnsafeBytes { _ = try cache.insert($0, for: 1) }
    _ = cache.withBytes(of: 1) { $0.count }
    (self.blocks, self.regions, self.cache, self.places) = (blocks, regions, cache, places)
  }
}

private let size = 1 << 20

private func place(_ bytes: UnsafeRawBufferPointer) -> Range<UInt> {
  let start = UInt(bitPattern: bytes.baseAddress)
  return start..<start + UInt(bytes.count)
}

/// Resident bytes of what is mapped there, page by page: mincore(2).
private func resident(_ place: Range<UInt>) -> Int {
  let page = Int(getpagesize())
  var pages = [UInt8](repeating: 0, count: (place.count + page - 1) / page)
  guard mincore(UnsafeMutableRawPointer(bitPattern: place.lowerBound), place.count, &pages) == 0 else {
    return -1
  }
  return pages.count { $0 & 1 != 0 } * page
}

@Suite(.bounded) struct TerminatedMemoryTests {
  /// As the kernel counts pages, in what somebody else has hold of still, so that it stays mapped; the rest
  /// is unmapped, and its place may be another's at once.
  // R-LIFE-08, R-MEM-05, R-MEM-15
  @Test(.timeLimit(.minutes(1))) func aTerminatedAppsMemoryIsGoneToTheLastPage() async throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "opportune-hoard-\(UUID())").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    try Data(repeating: 7, count: size).write(to: URL(fileURLWithPath: path))
    let scheduler = try Scheduler()
    let memory = try HostMemory(scheduler: scheduler)
    let host = try patientHost(scheduler: scheduler, brokers: [memory])
    try await memory.serve(host)
    let kept = AtomicBox<[Purgeable<UInt8>]>([])
    let places = AtomicBox<[Range<UInt>]>([])
    let own = AtomicBox<AppMemory?>(nil)
    let app = await host.register(Manifest(identifier: "hoarder"), memory: memory) { _, given in
      own.change { $0 = given }
      guard
        let hoarder = try? Hoarder(given, file: path, keeping: { regions in kept.change { $0 = regions } })
      else {
        return Silent()
      }
      places.change { $0 = hoarder.places }
      return hoarder
    }
    try await launchAndWait(host, app)
    try #require(places.value.count == 3)
    for place in places.value { #expect(resident(place) == place.count) }
    try await host.terminate(app)
    await wait(host, app, for: .notRunning)
    // The rest goes with the host's last reference to the delegate.
    let rest = UInt64(kept.value.reduce(0) { $0 + $1.bytes })
    try await until { own.value?.ledger.handedOut == rest }
    for place in places.value { #expect(resident(place) == 0) }
    #expect(own.value?.ledger.purged == rest)
  }
}
