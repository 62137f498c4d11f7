import OpportuneBase
import OpportuneFuzz
import OpportuneMemory
import OpportuneModels

/// Operations on a hibernation store, crashes that keep any part of what was not synchronised, failures and
/// damage.
struct StoreProperty: DrawnProperty {
  let name = "store"
  let summary =
    "After a crash, a failure or anything else each app is in the hibernation store as it was before the last "
    + "operation or after it; its space comes back; damage is an error, never another content."
  let grain = 6
  /// Without it the judge must find fault.
  var synchronises = true

  private static let names = ["a", "b", "c", ""]
  private static let size = HibernationStore.bytesMin + (96 << 10)
  static let freeBytes = 100 << 10

  func draw(_ generator: inout SplitMix64) -> [UInt8] {
    generator.bytes(grain * Int.random(in: 1...16, using: &generator))
  }

  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
    var world = try World(synchronises: synchronises)
    for start in stride(from: 0, to: input.count, by: grain) {
      var bytes = ByteSource(input[start..<min(start + grain, input.count)])
      try world.step(&bytes, &log)
    }
    log.note("everything is removed")
    try world.empties()
  }

  private typealias Content = [String: [[UInt8]]]

  private struct World {
    private let disk: CrashDisk
    private var store: HibernationStore
    private var content: Content = [:]

    init(synchronises: Bool) throws(Violation) {
      disk = CrashDisk(size: StoreProperty.size)
      disk.synchronises = synchronises
      store = try Self.open(disk, "a new store")
      disk.sync()
    }

    private static func open(_ disk: CrashDisk, _ what: String) throws(Violation) -> HibernationStore {
      do { return try HibernationStore(disk) } catch { throw Violation("\(what) does not open: \(error)") }
    }

    /// What a store has; an app that it names and does not hand out is a fault.
    private static func content(_ store: HibernationStore) throws(Violation) -> Content {
      var found: Content = [:]
      for app in store.apps {
        do { found[app] = try store.load(app) } catch { throw Violation("'\(app)' is lost: \(error)") }
      }
      return found
    }

    mutating func step(_ bytes: inout ByteSource, _ log: inout StepLog) throws(Violation) {
      let kind = bytes.below(8)
      let app = bytes.choice(StoreProperty.names)
      let length = bytes.below(24_000)
      let (seed, extra) = (bytes.byte(), bytes.byte())
      var generator = SplitMix64(seed: UInt64(seed) << 32 | UInt64(length))
      // Without synchronisation what earlier operations wrote may be lost too; each is judged by itself.
      disk.sync()
      var next = content
      switch kind {
      case 0...3:
        let parts = Self.parts(length, &generator)
        log.note("save '\(app)', \(parts.map(\.count)) bytes")
        // A third of them on a disk that fails after a few calls.
        disk.failsAfter = extra % 3 == 0 ? Int(extra) / 3 % 7 : nil
        next[app] = parts
        try change(&next, &log) { (store) throws(StoreError) in try Self.save(store, app, parts) }
      case 4...5:
        log.note("remove '\(app)'")
        disk.failsAfter = extra % 3 == 0 ? Int(extra) / 3 % 5 : nil
        next[app] = nil
        try change(&next, &log) { (store) throws(StoreError) in try store.remove(app) }
      case 6:
        log.note("open it again")
        store = try Self.open(disk, "the store")
      default:
        log.note("damage \(1 + extra % 4) places")
        return try damage(1 + Int(extra % 4), &generator)
      }
      for _ in 0..<3 {
        let point = Int.random(in: 0...disk.logCount, using: &generator)
        try crash(disk.crashImage(at: point, using: &generator), point, next, &log)
      }
      content = next
      disk.sync()
      guard try Self.content(store) == content else { throw Violation("the store has not what was saved") }
    }

    /// Does a change, which may fail: then it is as before or as after, and no more than that.
    private mutating func change(
      _ next: inout Content, _ log: inout StepLog, _ body: (HibernationStore) throws(StoreError) -> Void
    ) throws(Violation) {
      do throws(StoreError) { try body(store) } catch {
        switch error.code {
        case .full:
          log.add(": full")
          next = content
        case .system:
          log.add(": fails")
          guard try Self.content(store) == content else { throw Violation("a change that failed shows") }
          disk.failsAfter = nil
          store = try Self.open(disk, "the store after a failure")
          let found = try Self.content(store)
          guard found == content || found == next else {
            throw Violation("after a failure it is neither before nor after")
          }
          // A crash may leave either, whichever is seen now.
          next = found
        default: throw Violation("a change is refused: \(error)")
        }
      }
      disk.failsAfter = nil
    }

    private func crash(_ image: [UInt8], _ point: Int, _ next: Content, _ log: inout StepLog)
      throws(Violation)
    {
      let what = "a crash after call \(point) of \(disk.logCount)"
      let after = try Self.open(CrashDisk(image), what)
      let found: Content
      do throws(Violation) { found = try Self.content(after) } catch { throw Violation("\(what): \(error)") }
      guard found == content || found == next else {
        throw Violation("\(what) leaves neither before nor after")
      }
    }

    private func damage(_ places: Int, _ generator: inout SplitMix64) throws(Violation) {
      var image = disk.seen
      for _ in 0..<places {
        let used = [0..<400, (64 << 10)..<(64 << 10) + 400, (128 << 10)..<image.count]
        let at = Int.random(in: used[Int.random(in: 0..<3, using: &generator)], using: &generator)
        image[at] = UInt8.random(in: 0...255, using: &generator)
      }
      let store: HibernationStore
      do throws(StoreError) { store = try HibernationStore(CrashDisk(image)) } catch {
        guard [.damagedIndex, .otherVersion].contains(error.code) else {
          throw Violation("damage of the index is told as: \(error)")
        }
        return
      }
      guard Set(store.apps) == Set(content.keys) else {
        throw Violation("damage makes it name \(store.apps)")
      }
      for app in store.apps {
        let loaded: [[UInt8]]
        do throws(StoreError) { loaded = try store.load(app) } catch {
          guard error.code == .damagedRecord else { throw Violation("damage is told as: \(error)") }
          continue
        }
        guard loaded == content[app] else { throw Violation("damage is handed out as '\(app)'") }
      }
    }

    mutating func empties() throws(Violation) {
      do { for app in store.apps { try store.remove(app) } } catch {
        throw Violation("it is not removed: \(error)")
      }
      guard store.freeBytes == StoreProperty.freeBytes else {
        throw Violation("\(store.freeBytes) of \(StoreProperty.freeBytes) bytes are free when it is empty")
      }
    }

    /// A half of each is easily compressed.
    private static func parts(_ length: Int, _ generator: inout SplitMix64) -> [[UInt8]] {
      (0..<Int.random(in: 0...3, using: &generator)).map { part in
        let count = length / (part + 1)
        return generator.bytes(count / 2) + [UInt8](repeating: UInt8(part), count: count - count / 2)
      }
    }

    private static func save(_ store: HibernationStore, _ app: String, _ parts: [[UInt8]]) throws(StoreError)
    {
      let memory = parts.map { part in
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: part.count, alignment: 16)
        buffer.copyBytes(from: part)
        return buffer
      }
      defer { for buffer in memory { buffer.deallocate() } }
      try store.save(app, memory.map { UnsafeRawBufferPointer($0) })
    }
  }
}
