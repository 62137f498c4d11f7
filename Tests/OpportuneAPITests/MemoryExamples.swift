import Opportune
import TestSupport
import Testing

@Suite(.bounded) struct MemoryExamples {
  @Test func purgeable() throws {
    // docs: purgeable
    var configuration = MemoryConfiguration()
    configuration.limit = .budget(512_000_000)
    let broker = try MemoryBroker(configuration: configuration) { removal in print(removal.reason) }
    let browser: AppMemory = broker.makeMemory(named: "browser")
    let tiles: Purgeable<UInt32> = try browser.purgeable(count: 256 * 256)  // zero at first
    browser.setStanding(AppStanding.suspended)  // from here on the tiles may go
    browser.purge()  // as the broker does where memory is short
    let first = tiles.withContents(orRecreate: { $0.update(repeating: 7) }, { $0[0] })
    // end
    #expect(first == 7)
  }

  @Test func caches() throws {
    let broker = try MemoryBroker()
    let browser = broker.makeMemory(named: "browser")
    // docs: caches
    let pages: PurgeableCache<String> = try browser.cache(costLimit: 1 << 20)
    try pages.insert("<html>".utf8, for: "/")
    let count = pages.withBytes(of: "/") { $0.count }  // nil where it was taken: make it again
    // end
    #expect(count == 6)
  }

  @Test func blocks() throws {
    let broker = try MemoryBroker()
    let game = broker.makeMemory(named: "game")
    // docs: blocks
    let level: MemoryBlock = try game.allocate(bytes: 1 << 20)
    level.bytes[0] = 1
    print(game.ledger)
    // end
    #expect(level.count == 1 << 20)
  }

  @Test func errors() throws {
    let broker = try MemoryBroker()
    let game = broker.makeMemory(named: "game")
    // docs: memory errors
    do throws(MemoryError) {
      _ = try game.allocate(bytes: -1)
    } catch {
      print(error.message, error.code == .configuration)
    }
    // end
  }
}
