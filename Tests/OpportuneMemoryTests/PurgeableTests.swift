import Glibc
import TestSupport
import Testing

@testable import OpportuneMemory

private struct Broken: Error {}

@Suite(.bounded) struct PurgeableTests {
  // R-MEM-05
  @Test func residentSizeFallsPageForPageAndNothingStaleIsRead() throws {
    let app = try makeBroker().makeMemory(named: "app")
    let pages = 257
    let region = try app.purgeable(of: UInt8.self, count: pages * pageSize)
    let old = region.withContents { contents -> UnsafeMutableBufferPointer<UInt8> in
      switch contents {
      case .intact(let buffer), .purged(let buffer):
        buffer.update(repeating: 0xAB)
        return buffer
      }
    }
    let start = try #require(old.baseAddress)
    let before = try #require(resident(around: start))
    #expect(before >= pages * pageSize)
    #expect(try region.purge() == pages * pageSize)
    #expect(try before - #require(resident(around: start)) == pages * pageSize)
    #expect(old.allSatisfy { $0 == 0 })
    #expect(region.isPurged)
    #expect(try region.purge() == 0, "what is gone is not given back again")
    #expect(region.isAll(0xAB) == nil)
  }

  // R-MEM-05
  @Test func isIntactUntilItIsTakenAndAfterItWasMadeAgain() throws {
    let region = try makeBroker().makeMemory(named: "app").purgeable(of: UInt8.self, count: 100)
    #expect(region.bytes == pageSize && region.count == 100)
    #expect(region.isAll(0) == true, "a new region is zero")
    #expect(region.fill(1))
    #expect(region.isAll(1) == true)
    try region.purge()
    #expect(!region.fill(2))
    #expect(region.isAll(2) == true)
  }

  // R-MEM-05
  @Test func whatIsInUseOrNotVolatileStays() throws {
    let region = try makeBroker().makeMemory(named: "app").purgeable(of: UInt8.self, count: 100)
    region.fill(7)
    for mode in PurgeMode.allCases {
      let given = try region.withContents { _ in
        // Also while a second scope has come and gone.
        #expect(region.isAll(7) == true)
        return try region.purge(mode)
      }
      #expect(given == 0)
    }
    region.isVolatile = false
    for mode in PurgeMode.allCases { #expect(try region.purge(mode) == 0) }
    #expect(region.isAll(7) == true)
    region.isVolatile = true
    #expect(region.isVolatile)
    #expect(try region.purge() == pageSize)
  }

  @Test func aScopeThatThrowsLeavesNothingBehind() throws {
    let region = try makeBroker().makeMemory(named: "app").purgeable(of: UInt32.self, count: 2000)
    try region.purge()
    #expect(throws: Broken.self) {
      try region.withContents { (contents) throws(Broken) -> Void in
        if case .purged(let buffer) = contents { buffer.update(repeating: 9) }
        throw Broken()
      }
    }
    #expect(region.isPurged)
    func made(_ value: UInt32) -> (UnsafeMutableBufferPointer<UInt32>) -> Void {
      { $0.update(repeating: value) }
    }
    let sum = region.withContents(orRecreate: made(3)) { $0.reduce(0, +) }
    #expect(sum == 6000)
    let again = region.withContents(orRecreate: made(4)) { $0.reduce(0, +) }
    #expect(again == 6000, "made once")
  }

  // Law 1: who finds another at work makes its own, and goes on.
  @Test func whoFindsAnotherMakingTheContentDoesNotWait() throws {
    let region = try makeBroker().makeMemory(named: "app").purgeable(of: UInt8.self, count: 100)
    region.fill(1)
    try region.purge()
    region.withContents { contents -> Void in
      guard case .purged(let outer) = contents else {
        Issue.record("it was taken")
        return
      }
      region.withContents { contents -> Void in
        guard case .purged(let inner) = contents else {
          Issue.record("it is being made")
          return
        }
        #expect(inner.baseAddress != outer.baseAddress)
        #expect(inner.allSatisfy { $0 == 0 })
        inner.update(repeating: 5)
      }
      outer.update(repeating: 6)
    }
    #expect(region.isAll(6) == true, "what the second made went with its scope")
  }

  // R-MEM-05
  @Test func aLazyPurgeKeepsTheContentOrSaysThatItIsGone() throws {
    let app = try makeBroker().makeMemory(named: "app")
    let region = try app.purgeable(of: UInt8.self, count: 64 * pageSize)
    region.fill(3)
    #expect(try region.purge(.lazy) == 64 * pageSize)
    #expect(app.ledger.lazy == UInt64(64 * pageSize))
    #expect(region.isAll(3) == true, "nothing needed the pages")
    let start = region.withContents { contents in
      switch contents {
      case .intact(let buffer), .purged(let buffer): UInt(bitPattern: buffer.baseAddress)
      }
    }
    #expect(try region.purge(.lazy) == 64 * pageSize)
    // MADV_PAGEOUT makes the kernel take lazily freed pages now. It may decline; the content is whole then.
    madvise(UnsafeMutableRawPointer(bitPattern: start), 64 * pageSize, 21)
    let found = region.isAll(3)
    #expect(found == nil || found == true)
    #expect(app.ledger.lazy == 0)
  }

  /// What is noted of 4,096 pages is two of its own.
  // R-MEM-05
  @Test(arguments: [true, false]) func ofALazyPurgeNothingStaysInMemory(isUsedBetween: Bool) throws {
    let region = try makeBroker().makeMemory(named: "app").purgeable(of: UInt8.self, count: 4096 * pageSize)
    let start = region.withContents { contents in
      switch contents {
      case .intact(let buffer), .purged(let buffer): UnsafeMutableRawPointer(buffer.baseAddress)
      }
    }
    let address = try #require(start)
    let before = try #require(resident(around: address))
    region.fill(3)
    #expect(try region.purge(.lazy) == region.bytes)
    if isUsedBetween {
      #expect(region.isAll(3) == true)
      #expect(try #require(resident(around: address)) - before == region.bytes, "the notes have gone")
    }
    #expect(try region.purge() == region.bytes)
    #expect(resident(around: address) == before)
  }

  @Test(arguments: [0, -1, .min, .max, 1 << 47])
  func refusesImpossibleCounts(count: Int) throws {
    let app = try makeBroker().makeMemory(named: "app")
    let error = try #require(throws: MemoryError.self) { try app.purgeable(of: UInt32.self, count: count) }
    #expect(error.code == .configuration)
    #expect(error.description.contains("2^46"))
    #expect(app.ledger == MemoryLedger())
  }
}
