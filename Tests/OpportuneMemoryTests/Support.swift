import Foundation
import Synchronization

@testable import OpportuneMemory

/// Resident bytes of the mapping around an address, as the kernel counts them; `nil` where there is none.
/// Read by C, since a sanitizer has thousands of mappings, and Swift splits text slowly in a debug build.
func resident(around address: UnsafeRawPointer) -> Int? {
  guard let file = fopen("/proc/self/smaps", "r") else { return nil }
  defer { fclose(file) }
  var (line, capacity): (UnsafeMutablePointer<CChar>?, Int) = (nil, 0)
  defer { free(line) }
  let wanted = UInt(bitPattern: address)
  var isInside = false
  while getline(&line, &capacity, file) > 0, let line {
    var end: UnsafeMutablePointer<CChar>?
    let from = strtoul(line, &end, 16)
    if let end, end > line, end.pointee == CChar(UInt8(ascii: "-")) {
      isInside = (from..<strtoul(end + 1, nil, 16)).contains(wanted)
    } else if isInside, strncmp(line, "Rss:", 4) == 0 {
      return strtol(line + 4, nil, 10) * 1024
    }
  }
  return nil
}

/// Pages that are mapped in this process and in main memory, as it sees them itself.
func residentPages(_ bytes: UnsafeMutableRawBufferPointer) -> Int {
  guard let start = bytes.baseAddress else { return 0 }
  return resident(around: start).map { $0 / pageSize } ?? -1
}

func pagesInCore(_ bytes: UnsafeMutableRawBufferPointer) -> Int {
  var pages = [UInt8](repeating: 0, count: bytes.count / pageSize)
  guard mincore(bytes.baseAddress, bytes.count, &pages) == 0 else { return -1 }
  return pages.count { $0 & 1 == 1 }
}

/// A broker of a budget that nothing in the test comes near, unless told otherwise.
func makeBroker(
  budget: UInt64 = 1 << 40, clock: @escaping @Sendable () -> UInt64 = { 0 },
  remove: @escaping @Sendable (Removal) -> Void = { _ in }
) throws -> MemoryBroker { try makeBroker(budget: budget, clock: clock, remove: remove) { _ in } }

/// The same, with other settings.
func makeBroker(
  budget: UInt64 = 1 << 40, clock: @escaping @Sendable () -> UInt64 = { 0 },
  remove: @escaping @Sendable (Removal) -> Void = { _ in },
  _ change: (inout MemoryConfiguration) throws -> Void
) throws -> MemoryBroker {
  var configuration = MemoryConfiguration()
  configuration.limit = .budget(budget)
  try change(&configuration)
  return try MemoryBroker(configuration, remove: remove, clock: clock)
}

extension Purgeable<UInt8> {
  /// Whether the content was there; fills it with `value` where it was not.
  @discardableResult
  func fill(_ value: UInt8) -> Bool {
    withContents {
      switch $0 {
      case .intact(let buffer):
        buffer.update(repeating: value)
        return true
      case .purged(let buffer):
        buffer.update(repeating: value)
        return false
      }
    }
  }

  /// Whether every byte is `value`; `nil` where the content was taken, which makes it intact, and zero.
  func isAll(_ value: UInt8) -> Bool? {
    withContents {
      switch $0 {
      case .intact(let buffer): consists(buffer, of: value)
      case .purged(let buffer): consists(buffer, of: 0) ? nil : false
      }
    }
  }

  private func consists(_ buffer: UnsafeMutableBufferPointer<UInt8>, of value: UInt8) -> Bool {
    guard let start = buffer.baseAddress, start.pointee == value else { return false }
    return memcmp(start, start + 1, buffer.count - 1) == 0
  }
}

/// A sanitizer holds memory of its own, keeps what is freed, and locks nothing into memory.
let isSanitized = dlsym(nil, "__tsan_init") != nil || dlsym(nil, "__asan_init") != nil

/// Calls `body` on so many threads at once, and returns when all are done.
func together(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
  let begun = Barrier()
  let group = DispatchGroup()
  for index in 0..<count {
    group.enter()
    Thread.detachNewThread {
      begun.count.add(1, ordering: .relaxed)
      while begun.count.load(ordering: .relaxed) < count { sched_yield() }
      body(index)
      group.leave()
    }
  }
  group.wait()
}

private final class Barrier: Sendable {
  let count = Atomic<Int>(0)
}

/// In a process of its own: says what does not hold to whoever started it, and ends it.
func require(_ holds: Bool, _ what: @autoclosure () -> String) {
  guard !holds else { return }
  FileHandle.standardError.write(Data("does not hold: \(what())\n".utf8))
  _exit(1)
}

/// Somebody who acts once, where the broker next asks for the time: in between two steps of another's.
final class Intruder: @unchecked Sendable {  // one thread's
  var acts: (() -> Void)?
  var clock: @Sendable () -> UInt64 {
    {
      let acts = self.acts
      self.acts = nil
      acts?()
      return 0
    }
  }
}
