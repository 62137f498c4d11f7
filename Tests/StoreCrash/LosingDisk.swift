import Glibc
import OpportuneMemory
import TestSupport

/// A simulated disk that may lose unsynchronised writes in a crash of the machine. The store's file is the
/// kernel's cache, the file `.disk` beside it the disk, and `.unsynchronised` lists where the two may differ.
/// All of them outlive a killed program.
final class LosingDisk: StoreAccess {
  private static let sector = 512

  private let disk: Int32
  private let log: Int32
  private let synchronises: Bool

  /// - Parameter synchronises: `false`: the store's synchronisations do nothing.
  init(of path: String, synchronises: Bool) {
    disk = Self.file(path + ".disk")
    log = Self.file(path + ".unsynchronised")
    self.synchronises = synchronises
  }

  deinit {
    close(disk)
    close(log)
  }

  private static func file(_ path: String) -> Int32 {
    let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard file >= 0 else { fail("'\(path)' was not opened") }
    return file
  }

  func read(_ file: Int32, _ bytes: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
    let count = pread(file, bytes.baseAddress, bytes.count, off_t(offset))
    return count < 0 ? -Int(errno) : count
  }

  func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
    // Said before it is so.
    var entry = (offset, bytes.count)
    let size = MemoryLayout.size(ofValue: entry)
    guard lseek(log, 0, SEEK_END) >= 0, Glibc.write(log, &entry, size) == size else {
      fail("no entry in the log")
    }
    let count = pwrite(file, bytes.baseAddress, bytes.count, off_t(offset))
    return count < 0 ? -Int(errno) : count
  }

  func synchronise(_ file: Int32) -> Int {
    guard synchronises else { return 0 }
    for range in ranges() { Self.copy(range, from: file, to: disk) }
    guard ftruncate(log, 0) == 0 else { fail("the log was not emptied") }
    return 0
  }

  private func ranges() -> [Range<Int>] {
    var entries = [(Int, Int)](repeating: (0, 0), count: Int(lseek(log, 0, SEEK_END)) / 16)
    let count = entries.withUnsafeMutableBytes { pread(log, $0.baseAddress, $0.count, 0) }
    guard count == entries.count * 16 else { fail("the log was not read") }
    return entries.map { $0.0..<$0.0 + $0.1 }
  }

  private static func copy(_ range: Range<Int>, from: Int32, to: Int32) {
    var bytes = [UInt8](repeating: 0, count: range.count)
    let count = bytes.withUnsafeMutableBytes {
      pread(from, $0.baseAddress, range.count, off_t(range.lowerBound))
    }
    guard count == range.count, pwrite(to, bytes, range.count, off_t(range.lowerBound)) == range.count else {
      fail("bytes \(range) were not copied")
    }
  }

  /// The machine crashes: the store's file becomes what the disk has, and any sectors of what it perhaps has.
  func crash(_ path: String, using generator: inout some RandomNumberGenerator) {
    let file = Self.file(path)
    defer { close(file) }
    // Killed before the store's blocks were set aside: nothing was written then.
    guard lseek(file, 0, SEEK_END) == storeBytes else { return }
    for range in ranges() {
      for sector in stride(
        from: range.lowerBound / Self.sector, through: (range.upperBound - 1) / Self.sector, by: 1)
      where Bool.random(using: &generator) {
        let all = sector * Self.sector..<(sector + 1) * Self.sector
        Self.copy(all.clamped(to: range), from: file, to: disk)
      }
    }
    Self.copy(0..<storeBytes, from: disk, to: file)
    guard ftruncate(log, 0) == 0 else { fail("the log was not emptied") }
  }

  /// All that there is of the store is on the disk; nothing where there is none.
  func settle(_ path: String) {
    guard ftruncate(log, 0) == 0, ftruncate(disk, off_t(storeBytes)) == 0 else {
      fail("the disk was not settled")
    }
    guard access(path, F_OK) == 0 else {
      guard ftruncate(disk, 0) == 0, ftruncate(disk, off_t(storeBytes)) == 0 else {
        fail("the disk was not emptied")
      }
      return
    }
    let file = Self.file(path)
    defer { close(file) }
    if lseek(file, 0, SEEK_END) == storeBytes { Self.copy(0..<storeBytes, from: file, to: disk) }
  }
}
