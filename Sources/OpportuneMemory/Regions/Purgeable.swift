/// The result of a scoped access to purgeable memory.
public enum PurgeableContents<Element: BitwiseCopyable> {
  /// The content as it was left. It may be changed; concurrent scopes must synchronize among themselves.
  case intact(UnsafeMutableBufferPointer<Element>)
  /// The content was taken, and all bytes are zero: make it again here. It is kept when the scope returns,
  /// and dropped when the scope throws. If another thread is making the content at this moment, the buffer is
  /// private to this scope and is dropped with it, so that no thread waits.
  case purged(UnsafeMutableBufferPointer<Element>)
}

/// How purgeable memory is released to the kernel.
public enum PurgeMode: String, Sendable, Hashable, CaseIterable {
  /// At once: the pages are free on return, and the resident size has decreased.
  case eager
  /// When the kernel needs pages: any allocation gets them then. Until then the content may survive. The
  /// resident size decreases only as the kernel takes the pages. (R-GFX-05)
  case lazy
}

/// Memory that may be taken while it is not in use, for content that can be made again. (R-MEM-05)
///
/// The content is accessed in a scope, and is not moved or taken until the scope ends. Between scopes the
/// memory is volatile, unless configured otherwise. Under pressure it is then released to the kernel without
/// being written anywhere, and the next scope reports that.
///
/// Pointers must not leave the scope. A pointer that does reads zero, or content that was made later, never
/// the content that was taken.
///
/// Any thread may use it. Access never waits, neither for a thread that takes memory nor for one that makes
/// the content.
public final class Purgeable<Element: BitwiseCopyable>: Sendable {
  @usableFromInline let region: PurgeableRegion
  /// The number of elements.
  public let count: Int

  init(_ app: AppMemory, count: Int, group: UInt32, isVolatile: Bool) throws(MemoryError) {
    let (bytes, overflow) = count.multipliedReportingOverflow(by: MemoryLayout<Element>.stride)
    guard !overflow else { throw .range("a purgeable region", "\(count) elements", "1 to 2^46 bytes") }
    try MemoryError.check("a purgeable region", bytes: bytes)
    region = try PurgeableRegion(app, bytes: bytes, group: group)
    self.count = count
    if isVolatile { region.setVolatile(true) }
  }

  /// The size in bytes, in whole pages.
  public var bytes: Int { region.bytes }

  /// Calls `body` with the content.
  ///
  /// A new region is intact, and zero. Scopes may be nested, and may overlap on several threads.
  ///
  /// - Parameter body: must not let the buffer escape.
  /// - Returns: what `body` returns.
  /// - Throws: what `body` throws. Content that it was making again is then dropped.
  @inlinable
  public func withContents<Result, Failure: Error>(
    _ body: (PurgeableContents<Element>) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let pin = region.pin()
    switch pin.found {
    case .intact:
      defer { region.unpin() }
      return try body(.intact(buffer(pin.memory)))
    case .empty:
      region.makeRoom()
      do throws(Failure) {
        let result = try body(.purged(buffer(pin.memory)))
        region.unpinEmpty(isFilled: true)
        return result
      } catch {
        region.unpinEmpty(isFilled: false)
        throw error
      }
    case .busy:
      defer { region.unpinBusy(pin) }
      return try body(.purged(buffer(pin.memory)))
    }
  }

  /// Calls `body` with the content, after making the content again if it was taken.
  ///
  /// - Parameters:
  ///   - recreate: makes the content, in a zeroed buffer.
  ///   - body: must not let the buffer escape.
  /// - Returns: what `body` returns.
  /// - Throws: what `recreate` or `body` throws.
  @inlinable
  public func withContents<Result, Failure: Error>(
    orRecreate recreate: (UnsafeMutableBufferPointer<Element>) throws(Failure) -> Void,
    _ body: (UnsafeMutableBufferPointer<Element>) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try withContents { (contents) throws(Failure) -> Result in
      switch contents {
      case .intact(let buffer):
        return try body(buffer)
      case .purged(let buffer):
        try recreate(buffer)
        return try body(buffer)
      }
    }
  }

  @inlinable
  func buffer(_ memory: UnsafeMutableRawPointer) -> UnsafeMutableBufferPointer<Element> {
    UnsafeMutableBufferPointer(start: memory.assumingMemoryBound(to: Element.self), count: count)
  }

  /// Whether the memory may be taken between scopes. If not, it counts as pinned.
  public var isVolatile: Bool {
    get { region.view.is_volatile }
    set { region.setVolatile(newValue) }
  }

  /// Whether the content is known to have been taken. Lazily released content counts only once a scope has
  /// found it taken.
  public var isPurged: Bool { region.view.is_purged }

  /// Releases the pages now, whether or not memory is short.
  ///
  /// - Returns: bytes released; 0 where the memory is in use, not volatile, or released already.
  /// - Throws: ``MemoryError`` with code `system` where the kernel refuses; the content is kept then.
  @discardableResult
  public func purge(_ mode: PurgeMode = .eager) throws(MemoryError) -> Int { try region.take(mode) }
}
