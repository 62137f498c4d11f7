import Glibc
import Synchronization

/// Memory of an app that is not purgeable: counted, page for page, in its ledger. (R-MEM-15)
///
/// Any thread may use it; what it holds is for its users to agree about. It goes with the last reference.
public final class MemoryBlock: @unchecked Sendable {
  /// What it is.
  public enum Kind: Sendable, Hashable {
    /// Changed by the app, zero at first: lost unless it is written.
    case dirty
    /// Likewise, and locked into main memory.
    case wired
    /// A file's pages, read only: reloaded from the file at any time.
    case clean
  }

  /// What column of the ledger it is in.
  public let kind: Kind
  // Mapped for as long as the block lives, and never elsewhere.
  private let memory: UnsafeMutableRawPointer
  /// In bytes; a file's own size, else whole pages.
  public let count: Int
  private let counted: UInt64
  private let app: AppMemory
  /// Of a file.
  private let place: CleanPages.Place?
  /// Given back, and not counted. Relaxed: who gives back and who fills are told one after the other.
  private let isAway = Atomic<Bool>(false)

  /// Anonymous memory.
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

  /// A file, mapped.
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

  /// Its pages go, and read zero from then on. A file's go with those of the app's other files, see
  /// `AppMemory.purge()`.
  func giveBack() {
    guard kind != .clean, !isAway.exchange(true, ordering: .relaxed) else { return }
    empty()
    count(out: true)
  }

  private func empty() {
    // Emptied while it stays locked, its share of what may be locked is nobody else's when it comes back.
    if kind != .wired || madvise(memory, count, madviseDropLocked) != 0 {
      if kind == .wired { munlock(memory, count) }
      madvise(memory, count, MADV_DONTNEED)
    }
  }

  /// Its content comes back, by `fill`, into memory that is zero; `nil` where nothing was given back. Where
  /// it cannot be locked into memory, as it was, it stays away, and nothing is filled: returns whether that
  /// was not so.
  func comeBack<Failure: Error>(
    _ fill: (UnsafeMutableRawBufferPointer?) throws(Failure) -> Void
  ) throws(Failure) -> Bool {
    guard isAway.load(ordering: .relaxed) else {
      try fill(nil)
      return true
    }
    app.broker.makeRoom(for: count)
    guard kind != .wired || mlock(memory, count) == 0 else {
      empty()  // a part may be locked, and there
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

  /// Its bytes. Valid while the block lives; writing to a clean block ends the program.
  public var bytes: UnsafeMutableRawBufferPointer {
    UnsafeMutableRawBufferPointer(start: memory, count: count)
  }
}
