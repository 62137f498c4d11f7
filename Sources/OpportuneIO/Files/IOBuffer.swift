import Synchronization

/// Memory that requests read into and write from.
///
/// A request retains its buffer from the call until the kernel has ended the request. That may be after the
/// call has returned: at a deadline, or because the app was terminated. Until then the memory is neither
/// freed nor used by another request, and access is refused with `bufferInUse`.
///
/// The memory is aligned for `O_DIRECT`. A buffer may be used from any thread, by one thread at a time.
public final class IOBuffer: @unchecked Sendable {
  // Sendable: only the thread that has claimed the memory accesses it, and claims are exclusive.
  private let memory: UnsafeMutableRawBufferPointer
  private let isClaimed = Atomic<Bool>(false)
  /// The pool that owns the memory; nil if the buffer owns it.
  private let pool: RegisteredBuffers?
  private let indexInPool: Int
  /// Whether the memory belongs to the caller, which waits until the request has ended.
  private let isBorrowed: Bool

  static let countRange: ClosedRange<Int> = 1...1 << 30
  static let alignmentRange: ClosedRange<Int> = 16...1 << 21

  /// Makes a buffer of zeroed memory.
  ///
  /// - Parameters:
  ///   - count: the size in bytes, 1 to 2^30.
  ///   - alignment: a power of two, 16 to 2^21.
  public convenience init(count: Int, alignment: Int = 4096) throws(IOError) {
    try require(count, in: Self.countRange, "count")
    try require(alignment, in: Self.alignmentRange, "alignment")
    guard alignment.nonzeroBitCount == 1 else {
      throw IOError(.configuration, "alignment is \(alignment): expected a power of two")
    }
    self.init(zeroed: count, alignment)
  }

  /// Makes a buffer with a copy of `bytes`. An empty collection gives a buffer of which nothing is written or
  /// sent.
  ///
  /// - Parameter bytes: at most 2^30.
  public convenience init(copying bytes: some Collection<UInt8>) throws(IOError) {
    try require(bytes.count, in: 0...Self.countRange.upperBound, "count")
    let copy = bytes.withContiguousStorageIfAvailable { Self.copy(UnsafeRawBufferPointer($0), from: 0) }
    if let copy {
      self.init(owning: copy)
    } else {
      self.init(zeroed: bytes.count, 16)
      memory.copyBytes(from: bytes)
    }
  }

  /// Makes a buffer for one request, which begins at `start`, with a copy of what `bytes` has from there on.
  /// The memory before is not initialized.
  ///
  /// - Parameter bytes: at most 2^30.
  convenience init(copying bytes: UnsafeRawBufferPointer, from start: Int) {
    self.init(owning: Self.copy(bytes, from: start))
  }

  private static func copy(
    _ bytes: UnsafeRawBufferPointer, from start: Int
  ) -> UnsafeMutableRawBufferPointer {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 16)
    UnsafeMutableRawBufferPointer(rebasing: memory[start...]).copyMemory(
      from: UnsafeRawBufferPointer(rebasing: bytes[start...]))
    return memory
  }

  private convenience init(zeroed count: Int, _ alignment: Int) {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: alignment)
    _ = memory.initializeMemory(as: UInt8.self, repeating: 0)
    self.init(owning: memory)
  }

  private init(owning memory: UnsafeMutableRawBufferPointer) {
    self.memory = memory
    pool = nil
    indexInPool = 0
    isBorrowed = false
  }

  init?(from pool: RegisteredBuffers) {
    guard let taken = pool.take() else { return nil }
    self.pool = pool
    isBorrowed = false
    (indexInPool, memory) = taken
  }

  /// Makes a buffer of the caller's memory. The caller waits until the kernel has ended the request.
  init(borrowing memory: UnsafeMutableRawBufferPointer) throws(IOError) {
    try require(memory.count, in: Self.countRange, "count")
    self.memory = memory
    pool = nil
    indexInPool = 0
    isBorrowed = true
  }

  deinit {
    if let pool { pool.giveBack(indexInPool) } else if !isBorrowed { memory.deallocate() }
  }

  /// The buffer's index in `registered`, if the kernel has registered it. Called on the thread of the reactor
  /// that owns `registered`.
  func registration(in registered: RegisteredBuffers) -> Int? {
    pool === registered && registered.isRegistered ? indexInPool : nil
  }

  /// The size in bytes.
  public var count: Int { memory.count }

  /// Whether a request uses the buffer.
  public var isInUse: Bool { isClaimed.load(ordering: .acquiring) }

  /// Calls `body` with the bytes; they are valid during the call.
  ///
  /// - Throws: ``IOError`` with code `bufferInUse`, or what `body` throws.
  public func withBytes<Result>(_ body: (UnsafeMutableRawBufferPointer) throws -> Result) throws -> Result {
    try claim()
    defer { giveBack() }
    return try body(memory)
  }

  /// A copy of the bytes in `range`, clamped to the buffer.
  public func bytes(in range: Range<Int>? = nil) throws(IOError) -> [UInt8] {
    try claim()
    defer { giveBack() }
    return Array(memory[(range ?? 0..<count).clamped(to: 0..<count)])
  }

  /// The start of the memory, for requests.
  var address: UnsafeMutableRawPointer? { memory.baseAddress }

  func claim() throws(IOError) {
    guard !isClaimed.exchange(true, ordering: .acquiringAndReleasing) else {
      throw IOError(.bufferInUse, "a buffer of \(count) bytes is in use by another request")
    }
  }

  func giveBack() { isClaimed.store(false, ordering: .releasing) }
}
