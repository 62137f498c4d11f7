import Glibc
import Opportune
import OpportuneBase
import ToolSupport

/// Figure 3: state that does not compress goes to the store and comes back, by system calls and over the I/O
/// broker, against a plain write, `fsync` and read of as many bytes in a file whose blocks are set aside as
/// well.
struct HibernateFigure {
  static let mebibytes = [8, 32, 128]
  let io: IOBroker
  private let folder: String
  private let scratch: ScratchFolder

  init(folder: String) throws {
    self.folder = folder
    scratch = try ScratchFolder(in: folder)
    io = try IOBroker()
  }

  /// State that does not compress.
  struct Memory {
    let block: MemoryBlock
    let seed: UInt64
  }

  /// There and back, in seconds, and what the kernel was given to write.
  struct Sample {
    var hibernate = 0.0
    var reanimate = 0.0
    var written = 0.0
  }

  func memory(mebibytes: Int, seed: UInt64) throws -> Memory {
    let block = try MemoryBroker().makeMemory(named: "bench").allocate(bytes: mebibytes << 20)
    Self.fill(block.bytes, seed: seed)
    return Memory(block: block, seed: seed)
  }

  /// - Parameter io: `nil`: system calls.
  func cycle(_ memory: Memory, over io: IOBroker?) throws -> Sample {
    let (block, seed) = (memory.block, memory.seed)
    let path = "\(scratch.path)/store"
    defer { unlink(path) }
    let store = try HibernationStore(path: path, bytes: block.count + (16 << 20))
    let file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
    guard file >= 0, unlink(path) == 0 else { throw BenchError.failed("'\(path)' was not opened") }
    defer { close(file) }
    if let io {
      store.carry(
        by: BrokeredAccess(
          writer: try io.makeApp(named: "hibernation", state: .background),
          reader: try io.makeApp(named: "reanimation")))
    }
    let held = HeldMemory(block)
    let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
    let before = Self.writtenBytes()
    let hibernate = try Self.seconds {
      _ = try held.withContent { try store.save("app", [nothing, $0]) }
      held.giveBack()
    }
    let written = Self.writtenBytes() - before
    guard block.bytes[0] == 0, block.bytes[block.count - 1] == 0 else {
      throw BenchError(.workLost, "memory was not given back")
    }
    Self.forgetCache(file)
    let reanimate = try Self.seconds {
      guard try store.record(of: "app").load(into: [held]) != nil else {
        throw BenchError(.workLost, "the app did not come back")
      }
      try store.remove("app")
    }
    guard Self.holds(block.bytes, seed: seed) else {
      throw BenchError(.wrongAnswer, "the app came back otherwise")
    }
    return Sample(hibernate: hibernate, reanimate: reanimate, written: written)
  }

  /// The disk's own speed.
  func plain(_ memory: Memory) throws -> Sample {
    let content = memory.block.bytes
    let scratch = try ScratchFile(in: folder)
    let file = scratch.descriptor
    guard posix_fallocate(file, 0, content.count) == 0, fsync(file) == 0 else {
      throw BenchError(.system, "no \(content.count) bytes could be set aside in '\(folder)'")
    }
    let write = try Self.seconds {
      try Self.whole(content) { pwrite(file, $0.baseAddress, $0.count, off_t($1)) }
      guard fsync(file) == 0 else { throw BenchError.failed("a file in '\(folder)' was not synchronised") }
    }
    Self.forgetCache(file)
    let read = try Self.seconds {
      let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: content.count, alignment: 4096)
      defer { copy.deallocate() }
      try Self.whole(copy) { pread(file, $0.baseAddress, $0.count, off_t($1)) }
    }
    return Sample(hibernate: write, reanimate: read)
  }

  // MARK: The parts

  private static func whole(
    _ bytes: UnsafeMutableRawBufferPointer, _ step: (UnsafeMutableRawBufferPointer, Int) -> Int
  ) throws {
    let done = inPieces(bytes.count) { step(UnsafeMutableRawBufferPointer(rebasing: bytes[$0...]), $0) }.done
    guard done == bytes.count else {
      throw BenchError(.system, "a file ended after \(done) of \(bytes.count) bytes")
    }
  }

  /// What is read comes from the disk, where the file system has one.
  private static func forgetCache(_ file: Int32) { posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) }

  private static func seconds(_ body: () throws -> Void) rethrows -> Double {
    let start = SystemClock.now()
    try body()
    return max(Double(elapsed(from: start, to: SystemClock.now())), 1) / 1e9
  }

  /// Nothing that compresses; no word begins or ends with a zero byte.
  private static func fill(_ bytes: UnsafeMutableRawBufferPointer, seed: UInt64) {
    var random = SplitMix64(seed: seed)
    let words = bytes.assumingMemoryBound(to: UInt64.self)
    for index in words.indices { words[index] = random.next() | 1 << 56 | 1 }
  }

  private static func holds(_ bytes: UnsafeMutableRawBufferPointer, seed: UInt64) -> Bool {
    var random = SplitMix64(seed: seed)
    return bytes.assumingMemoryBound(to: UInt64.self).allSatisfy { $0 == random.next() | 1 << 56 | 1 }
  }

  /// Bytes that this process gave the kernel to write, as that counts them; 0 where it does not.
  private static func writtenBytes() -> Double {
    for line in (TextFile.read("/proc/self/io") ?? "").split(separator: "\n") where line.hasPrefix("wchar: ")
    {
      return Double(line.dropFirst(7)) ?? 0
    }
    return 0
  }
}
