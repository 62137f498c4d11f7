import Glibc
internal import OpportuneBase
import Synchronization

private let numbers = Atomic<UInt64>(0)

/// Memory to draw into, whose pixels only the foreground can change. (R-GFX-01, R-GFX-03)
///
/// It is not purgeable and in no ledger. Put what can be drawn again into `AppMemory.drawing(bytes:)` of the
/// memory module.
///
/// Its address never changes. In the background its pages are replaced: writes through any pointer go to
/// other pages, without a fault, and are lost when the app is suspended or returns to the foreground. The
/// host detects such writes afterwards. It counts them as ``BestPractice/noDrawingInBackground``, from the
/// return of `didEnterBackground` on.
///
/// Invariants: `pixels` is mapped, writable, for as long as the buffer exists. `shown` is a second, read-only
/// mapping of the same file, which always shows what the foreground drew.
public final class DrawingBuffer: @unchecked Sendable {
  /// The memory that the app draws into. Valid for as long as the buffer exists.
  public let pixels: UnsafeMutableRawPointer
  /// The memory that is displayed.
  public let shown: UnsafeRawPointer
  /// The size in bytes; whole pages.
  public let count: Int
  private let descriptor: Int32
  /// Maps pages in place of others, like `mmap` with these flags. Returns 0 or an error number.
  typealias Place = @Sendable (UnsafeMutableRawPointer, Int, _ flags: Int32, _ descriptor: Int32) -> Int32
  private let place: Place
  // Written by the host only, on its strand.
  private var accepts = true
  private var isWatched = false

  /// - Parameter bytes: rounded up to whole pages.
  /// - Throws: ``HostError``: `memory`.
  init(
    bytes: Int,
    place: @escaping Place = { start, count, flags, descriptor in
      mmap(start, count, PROT_READ | PROT_WRITE, flags | MAP_FIXED, descriptor, 0) == MAP_FAILED ? errno : 0
    }
  ) throws(HostError) {
    self.place = place
    let page = Int(sysconf(Int32(_SC_PAGESIZE)))
    guard bytes > 0, bytes <= 1 << 40 else {
      throw HostError(.memory("a drawing buffer of \(bytes) bytes, expected 1 to 2^40"))
    }
    count = (bytes + page - 1) / page * page
    // A temporary name: the shared-memory object continues to exist without it.
    let name = "/opportune-drawing-\(getpid())-\(numbers.add(1, ordering: .relaxed).newValue)"
    descriptor = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    if descriptor >= 0 { shm_unlink(name) }
    guard descriptor >= 0, ftruncate(descriptor, count) == 0,
      let pixels = mmap(nil, count, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), pixels != MAP_FAILED
    else {
      let reason = errorText(errno)
      if descriptor >= 0 { close(descriptor) }
      throw HostError(.memory("no drawing buffer of \(bytes) bytes: \(reason)"))
    }
    // Fails if /dev/shm is too small; without it, drawing would kill the process.
    let allocated = posix_fallocate(descriptor, 0, count)
    guard allocated == 0 else {
      munmap(pixels, count)
      close(descriptor)
      throw HostError(
        .memory("no drawing buffer of \(bytes) bytes in /dev/shm: \(errorText(allocated))"))
    }
    guard let shown = mmap(nil, count, PROT_READ, MAP_SHARED, descriptor, 0), shown != MAP_FAILED else {
      let reason = errorText(errno)
      munmap(pixels, count)
      close(descriptor)
      throw HostError(.memory("no second view of a drawing buffer of \(bytes) bytes: \(reason)"))
    }
    self.pixels = pixels
    self.shown = UnsafeRawPointer(shown)
  }

  deinit {
    munmap(pixels, count)
    munmap(UnsafeMutableRawPointer(mutating: shown), count)
    close(descriptor)
  }

  /// Replaces the pages. The kernel replaces a mapping atomically: a concurrent write goes to the old or to
  /// the new page.
  ///
  /// - Returns: 0, or an error number. If memory is short the old pages stay, and the next change tries
  ///   again.
  func setAccepts(_ accepts: Bool) -> Int32 {
    guard accepts != self.accepts else { return 0 }
    let error = place(
      pixels, count, accepts ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, accepts ? descriptor : -1)
    guard error == 0 else { return error }
    // A huge zero page that was only read could be mistaken for a written one.
    if !accepts { madvise(pixels, count, MADV_NOHUGEPAGE) }
    (self.accepts, isWatched) = (accepts, false)
    return 0
  }

  /// Called in the background: from now on the app must not draw. Forgets earlier writes.
  func watch() {
    guard !accepts else { return }
    isWatched = true
    madvise(pixels, count, MADV_DONTNEED)
  }

  /// Whether the buffer was written since ``watch()``, or since the last call. Discards those writes.
  /// (R-RULE-02)
  func takeStray() -> Bool {
    guard isWatched, OwnPages.isAny(in: pixels, count) else { return false }
    madvise(pixels, count, MADV_DONTNEED)
    return true
  }
}

/// Detects written pages of private, anonymous memory. The kernel maps the shared zero page until the first
/// write.
private enum OwnPages {
  /// Bits of an entry in /proc/self/pagemap: the page is exclusive to this process, or is in swap.
  private static let own: UInt64 = 1 << 56 | 1 << 62

  /// Returns false where /proc is not available.
  static func isAny(in start: UnsafeMutableRawPointer, _ count: Int) -> Bool {
    let file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return false }
    defer { close(file) }
    let page = Int(sysconf(Int32(_SC_PAGESIZE)))
    var (next, left) = (Int(bitPattern: start) / page, count / page)
    var entries = [UInt64](repeating: 0, count: min(left, 4096))
    while left > 0 {
      let size = pread(file, &entries, min(left, entries.count) * 8, off_t(next * 8))
      guard size >= 8 else { return false }
      if entries[..<(size / 8)].contains(where: { $0 & own != 0 }) { return true }
      next += size / 8
      left -= size / 8
    }
    return false
  }
}

extension HostedApp {
  /// Makes a buffer to draw into.
  ///
  /// - Throws: ``HostError``: `memory`, `terminated`.
  public func makeDrawingBuffer(bytes: Int) async throws(HostError) -> DrawingBuffer {
    let buffer = try DrawingBuffer(bytes: bytes)
    try await host().adopt(buffer, self)
    return buffer
  }
}
