/// What scoped access to purgeable memory found.
public enum PurgeableContents<Element: BitwiseCopyable> {
  /// The content, as it was left. May be changed; holders at the same time have to agree among themselves.
  case intact(UnsafeMutableBufferPointer<Element>)
  /// The content was taken. All bytes are zero: make it again here. It is kept when the scope returns, not
  /// when it throws. Where another thread is making it at this moment, the buffer is this scope's own and
  /// goes with it, so that nobody waits.
  case purged(UnsafeMutableBufferPointer<Element>)
}

/// How purgeable memory goes back to the kernel.
public enum PurgeMode: String, Sendable, Hashable, CaseIterable {
  /// At once: the pages are free on return, and resident size has fallen.
  case eager
  /// When the kernel needs pages: ordinary allocation of anybody gets them then, and until then the content
  /// may be had back. Resident size falls only as the kernel takes them. (R-GFX-05)
  case lazy
}

/// Memory that may be taken while nobody uses it: for what can be made again. (R-MEM-05)
///
/// Content is reached in a scope, and stays put until that ends. Between scopes it is volatile, unless told
/// otherwise, and under pressure goes back to the kernel without being written anywhere. The next scope
/// learns of that. Pointers must not leave the scope; one that does reads zero, or what was made later, never
/// what was taken.
///
/// Any thread. Access never waits: neither for who takes memory, nor for another thread that is making the
/// content.
public final class Purgeable<Element: BitwiseCopyable>: Sendable {
  @usableFromInline let region: PurgeableRegion
  /// How many elements it has room for.
  public let count: Int

  init(_ app: AppMemory, count: Int, group: UInt32, isVolatile: Bool) throws(MemoryError) {
    let (bytes, overflow) = count.multipliedReportingOverflow(by: MemoryLayout<Element>.stride)
    guard !overflow else { throw .range("a purgeable region", "\(count) elements", "1 to 2^46 bytes") }
    try MemoryError.check("a purgeable region", bytes: bytes)
    region = try PurgeableRegion(app, bytes: bytes, group: group)
    self.count = count
    if isVolatile { region.setVolatile(true) }
  }

  /// Its size in bytes: whole pages.
  public var bytes: Int { region.bytes }

  /// Uses the content.
  ///
  /// A new region is intact, and zero. Scopes may be nested, and overlap on several threads.
  ///
  /// - Parameter body: must not let the buffer out.
  /// - Returns: what `body` returns.
  /// - Throws: what `body` throws. What it was making of purged content is dropped then.
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

  /// Uses the content, after making it again where it was taken.
  ///
  /// - Parameters:
  ///   - recreate: makes the content, in a buffer of zero bytes.
  ///   - body: must not let the buffer out.
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

  /// Whether it may be taken between scopes. Off, it counts as pinned.
  public var isVolatile: Bool {
    get { region.view.is_volatile }
    set { region.setVolatile(newValue) }
  }

  /// Whether its content is gone, as far as is known: what was given back lazily counts once a scope has
  /// found out.
  public var isPurged: Bool { region.view.is_purged }

  /// Gives the pages back now, whoever needs them.
  ///
  /// - Returns: bytes given back; 0 where it is in use, not volatile, or gone already.
  /// - Throws: ``MemoryError`` with code `system` where the kernel does not take them; they are held then.
  @discardableResult
  public func purge(_ mode: PurgeMode = .eager) throws(MemoryError) -> Int { try region.take(mode) }
}
