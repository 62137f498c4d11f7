import Glibc
import Synchronization

/// Non-purgeable memory of an app, counted by pages in the app's ledger. (R-MEM-15)
///
/// Any thread may use it; its users synchronize access to the content themselves. It is freed with its last
/// reference.
public final class MemoryBlock: @unchecked Sendable {
  /// The kind of memory.
  public enum Kind: Sendable, Hashable {
    /// Changed by the app, initially zero: lost unless it is written to disk.
    case dirty
    /// Like `dirty`, and locked into main memory.
    case wired
    /// A file's pages, read only: reloaded from the file at any time.
    case clean
  }

  /// The column of the ledger.
  public let kind: Kind
  // Mapped for as long as the block exists, at a fixed address.
  private let memory: UnsafeMutableRawPointer
  /// The size in bytes: that of the file, or whole pages.
  public let count: Int
  private let counted: UInt64
  private let app: AppMemory
  /// Files only.
  private let place: CleanPages.Place?
  /// Whether the pages were given back and are not counted. Relaxed: the caller serialises giving back and
  /// restoring.
  private let isAway = Atomic<Bool>(false)

  /// Allocates anonymous memory.
  init(_ app: AppMemory, bytes: Int, isWired: Bool) throws(MemoryError) {
    try MemoryError.check("a block", bytes: bytes)
    app.broker.makeRoom(for: bytes)
    let size = (bytes + pageSize - 1) / pageSize * pageSize
    guard let memory = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
      memory != MAP_FAILED
    else { throw .refused("no block of \(bytes) bytes", errno) }
    if isWired, mlock(memory, size) != 0 {
      let number = errno
      munmap(memory, size)
      throw .refused("a block of \(bytes) bytes was not locked into memory", number)
    }
    self.memory = memory
    self.app = app
    place = nil
    kind = isWired ? .wired : .dirty
    count = size
    counted = UInt64(size)
    app.record.add(counted, kind)
    app.broker.add(counted)
  }

  /// Maps a file.
  init(_ app: AppMemory, file path: String) throws(MemoryError) {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw .refused("'\(path)' was not opened", errno) }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw .refused("'\(path)' has no size", errno) }
    let size = Int(status.st_size)
    guard size > 0 else { throw .range("'\(path)'", "\(size) bytes", "a file of 1 byte or more") }
    guard let memory = mmap(nil, size, PROT_READ, MAP_PRIVATE, descriptor, 0), memory != MAP_FAILED else {
      throw .refused("'\(path)' was not mapped", errno)
    }
    self.memory = memory
    self.app = app
    kind = .clean
    count = size
    place = app.broker.files.add(UnsafeMutableRawBufferPointer(start: memory, count: size), of: app.record)
    counted = UInt64((size + pageSize - 1) / pageSize * pageSize)
    app.record.add(counted, .clean)
    app.broker.add(counted)
  }

  deinit {
    if let place { place.unmap(bytes) } else { munmap(memory, count) }
    if !isAway.load(ordering: .relaxed) { count(out: true) }
  }

  private func count(out: Bool) {
    if out {
      app.record.subtract(counted, kind)
      app.broker.subtract(counted)
    } else {
      app.record.add(counted, kind)
      app.broker.add(counted)
    }
  }

  /// Gives the pages back; they read as zero from then on. A file's pages are dropped with those of the app's
  /// other files, see `AppMemory.purge()`.
  func giveBack() {
    guard kind != .clean, !isAway.exchange(true, ordering: .relaxed) else { return }
    empty()
    count(out: true)
  }

  private func empty() {
    // The memory stays locked while it is empty. So its share of the lock limit is still there when the
    // content comes back.
    if kind != .wired || madvise(memory, count, madviseDropLocked) != 0 {
      if kind == .wired { munlock(memory, count) }
      madvise(memory, count, MADV_DONTNEED)
    }
  }

  /// Restores the content by `fill` into zeroed memory. Returns `nil` where nothing was given back. Returns
  /// false where the memory cannot be locked again: then nothing is filled, and it stays given back.
  func comeBack<Failure: Error>(
    _ fill: (UnsafeMutableRawBufferPointer?) throws(Failure) -> Void
  ) throws(Failure) -> Bool {
    guard isAway.load(ordering: .relaxed) else {
      try fill(nil)
      return true
    }
    app.broker.makeRoom(for: count)
    guard kind != .wired || mlock(memory, count) == 0 else {
      empty()  // a part may be locked and resident
      return false
    }
    do throws(Failure) {
      try fill(bytes)
    } catch {
      empty()
      throw error
    }
    isAway.store(false, ordering: .relaxed)
    count(out: false)
    return true
  }

  /// The block's bytes. Valid while the block exists; writing to a clean block terminates the program.
  public var bytes: UnsafeMutableRawBufferPointer {
    UnsafeMutableRawBufferPointer(start: memory, count: count)
  }
}
