import Opportune

/// A browser keeps pictures for as long as nobody needs the memory more.
func caches() async throws {
  var configuration = MemoryConfiguration()
  configuration.limit = .budget(16 << 20)  // bytes; by default it is the machine's memory
  let broker = try MemoryBroker(configuration: configuration) { print("would have to go:", $0.reason) }
  let browser = broker.makeMemory(named: "browser")
  let editor = broker.makeMemory(named: "editor")

  let pictures: PurgeableCache<String> = try browser.cache(costLimit: 8 << 20)  // in any case
  let names = (1...6).map { "picture \($0)" }
  for name in names { try decode(name, into: pictures) }
  print("pictures kept: \(names.count { pictures.withBytes(of: $0) { $0[0] } != nil })")

  browser.setStanding(.suspended)  // nobody looks at it: from here on its cache may be taken
  var levels = try broker.levels().makeAsyncIterator()
  print("level:", await levels.next() ?? .normal)
  var blocks = [try editor.allocate(bytes: 5 << 20)]  // 11 of 16 MiB are in use
  print("level:", await levels.next() ?? .normal)
  blocks.append(try editor.allocate(bytes: 3 << 20))  // would be 14: the oldest pictures give way
  print("taken: \(broker.purges.regions) pictures, editor has \(editor.ledger.dirty >> 20) MiB")

  blocks = []
  browser.setStanding(.active)
  var again = 0
  for name in names where pictures.withBytes(of: name, { $0[0] }) == nil {
    try decode(name, into: pictures)
    again += 1
  }
  print("made again: \(again)")
}

func decode(_ name: String, into pictures: PurgeableCache<String>) throws {
  let pixels = [UInt8](repeating: 1, count: 1 << 20)  // in place of work
  try pictures.insert(pixels, for: name)
}
