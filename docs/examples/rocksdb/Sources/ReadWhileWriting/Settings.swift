/// What runs a contender's background work and its requests.
enum Contender: String, CaseIterable, Codable {
  /// RocksDB's own two pools as they are by default, requests in a pool of threads.
  case rocksdb = "default"
  /// The same, tuned by RocksDB's guide.
  case tuned
  /// Background work in a background app, requests as jobs of a foreground app.
  case opportune
  /// The same, with flushes in the foreground app.
  case opportuneFlush = "opportune-flush"
  /// Background work in a background app, requests in a pool of threads.
  case opportuneBackground = "opportune-background"

  /// RocksDB's pools are left to it.
  private var isRocksDBs: Bool { self == .rocksdb || self == .tuned }
  var hostsBackground: Bool { !isRocksDBs }
  var hostsRequests: Bool { self == .opportune || self == .opportuneFlush }
  var flushesInFront: Bool { self == .opportuneFlush }
}

/// What a run is asked for. A value; the window's process gets the same words as the run's.
struct Settings {
  var contenders: [Contender] = [.rocksdb, .tuned, .opportune]
  var repeats = 5
  var seconds = 20.0
  var warmSeconds = 5.0
  var keys = 2_000_000
  var valueBytes = 256
  var readsPerSecond = 2000.0
  var writtenMB = 12.0
  var cacheMB = 32
  var bufferMB = 8
  var backgroundJobs = 2
  var rateLimitMB = 100
  var readsDirectly = false
  var folder = "rocksdb-scratch"
  var json: String?
  /// This process runs one window of this contender, on a database that is made for it.
  var window: Contender?

  static let help = """
    usage: ReadWhileWriting [OPTION VALUE]...

    Reads a database of RocksDB at intended times while it is written to and compacts.

      --contenders LIST     of default, tuned, opportune, opportune-flush,
                            opportune-background (the first three)
      --repeats N           windows of each contender, in turns (5)
      --seconds S           of each window (20), after --warm S of the same load (5)
      --keys N              in the database (2000000), each with --value-bytes N (256)
      --reads N             a second (2000)
      --write-mb N          keys and values written a second, in MB (12)
      --cache-mb N          RocksDB's block cache, MiB (32)
      --buffer-mb N         a memtable, MiB; sizes of files and levels follow (8)
      --background-jobs N   RocksDB's max_background_jobs (2)
      --rate-limit-mb N     of the tuned contender's background writes, MB a second, auto-tuned below (100)
      --direct yes          files without the page cache
      --folder PATH         where databases are made, and removed afterwards (rocksdb-scratch)
      --json PATH           writes the figures of all windows there
    """

  init(_ arguments: [String]) throws(UsageError) {
    var rest = arguments[...]
    while let name = rest.popFirst() {
      guard let word = rest.popFirst() else { throw UsageError("\(name) needs a value") }
      try set(name, to: word)
    }
    guard repeats > 0, seconds > 0, warmSeconds >= 0, keys > 0, valueBytes >= 16, readsPerSecond > 0,
      writtenMB > 0, cacheMB > 0, bufferMB > 0, backgroundJobs > 0, rateLimitMB > 0, !contenders.isEmpty
    else { throw UsageError("a number is out of range") }
  }

  private mutating func set(_ name: String, to word: String) throws(UsageError) {
    func number<Number: LosslessStringConvertible>() throws(UsageError) -> Number {
      guard let value = Number(word) else { throw UsageError("\(name) takes a number, not '\(word)'") }
      return value
    }
    func contender(_ word: Substring) throws(UsageError) -> Contender {
      guard let contender = Contender(rawValue: String(word)) else {
        throw UsageError("no contender '\(word)'")
      }
      return contender
    }
    switch name {
    case "--contenders":
      contenders = []
      for word in word.split(separator: ",") { contenders.append(try contender(word)) }
    case "--window": window = try contender(word[...])
    case "--repeats": repeats = try number()
    case "--seconds": seconds = try number()
    case "--warm": warmSeconds = try number()
    case "--keys": keys = try number()
    case "--value-bytes": valueBytes = try number()
    case "--reads": readsPerSecond = try number()
    case "--write-mb": writtenMB = try number()
    case "--cache-mb": cacheMB = try number()
    case "--buffer-mb": bufferMB = try number()
    case "--background-jobs": backgroundJobs = try number()
    case "--rate-limit-mb": rateLimitMB = try number()
    case "--direct": readsDirectly = word == "yes"
    case "--folder": folder = word
    case "--json": json = word
    default: throw UsageError("no option '\(name)'")
    }
  }
}

struct UsageError: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
