import Synchronization

/// Memory that requests read into and write from.
///
/// While a request uses it, from the call until the kernel has let go of it, the request holds the buffer, so
/// its memory is neither freed nor handed to another request, even where the call returned before: at a
/// deadline, or because the app was terminated. Access in that time is refused with `bufferInUse`. Aligned,
/// so that it serves `O_DIRECT`.
///
/// May be used from any thread, by one at a time.
public final class IOBuffer: @unchecked Sendable {
  // Sendable: the memory is only touched by whoever has claimed it, and claims are exclusive.
  private let memory: UnsafeMutableRawBufferPointer
  private let isClaimed = Atomic<Bool>(false)
  /// Where the memory is one of a pool's.
  private let pool: RegisteredBuffers?
  private let indexInPool: Int
  /// Whether it is its caller's own, who waits until the request has ended.
  private let isBorrowed: Bool

  static let countRange: ClosedRange<Int> = 1...1 << 30
  static let alignmentRange: ClosedRange<Int> = 16...1 << 21

  /// Zeroed memory.
  ///
  /// - Parameters:
  ///   - count: bytes, 1 to 2^30.
  ///   - alignment: a power of two, 16 to 2^21.
  public convenience init(count: Int, alignment: Int = 4096) throws(IOError) {
    try require(count, in: Self.countRange, "count")
    try require(alignment, in: Self.alignmentRange, "alignment")
    guard alignment.nonzeroBitCount == 1 else {
      throw IOError(.configuration, "alignment is \(alignment): expected a power of two")
    }
    self.init(zeroed: count, alignment)
  }

  /// A copy of `bytes`; of none, a buffer of which nothing is written or sent.
  ///
  /// - Parameter bytes: at most 2^30.
  public convenience init(copying bytes: some Collection<UInt8>) throws(IOError) {
    try require(bytes.count, in: 0...Self.countRange.upperBound, "count")
    self.init(zeroed: bytes.count, 16)
    memory.copyBytes(from: bytes)
  }

  private init(zeroed count: Int, _ alignment: Int) {
    pool = nil
    indexInPool = 0
    isBorrowed = false
    memory = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: alignment)
    _ = memory.initializeMemory(as: UInt8.self, repeating: 0)
  }

  init?(from pool: RegisteredBuffers) {
    guard let taken = pool.take() else { return nil }
    self.pool = pool
    isBorrowed = false
    (indexInPool, memory) = taken
  }

  /// Memory of a caller that waits until the kernel has let go of it.
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

  /// Its number, where it is of `registered`, and the kernel knows that. On the thread of the reactor that
  /// has them.
  func registration(in registered: RegisteredBuffers) -> Int? {
    pool === registered && registered.isRegistered ? indexInPool : nil
  }

  /// Bytes.
  public var count: Int { memory.count }

  /// Whether a request has it.
  public var isInUse: Bool { isClaimed.load(ordering: .acquiring) }

  /// The bytes, for the time of the call.
  ///
  /// - Throws: ``IOError`` with code `bufferInUse`, or what `body` throws.
  public func withBytes<Result>(_ body: (UnsafeMutableRawBufferPointer) throws -> Result) throws -> Result {
    try claim()
    defer { giveBack() }
    return try body(memory)
  }

  /// A copy of the bytes in `range`, cut to what there is.
  public func bytes(in range: Range<Int>? = nil) throws(IOError) -> [UInt8] {
    try claim()
    defer { giveBack() }
    return Array(memory[(range ?? 0..<count).clamped(to: 0..<count)])
  }

  /// The requests'.
  var address: UnsafeMutableRawPointer? { memory.baseAddress }

  func claim() throws(IOError) {
    guard !isClaimed.exchange(true, ordering: .acquiringAndReleasing) else {
      throw IOError(.bufferInUse, "a buffer of \(count) bytes is in use by another request")
    }
  }

  func giveBack() { isClaimed.store(false, ordering: .releasing) }
}
