internal import COpportune
import Glibc
internal import OpportuneBase
import OpportuneScheduler
import SystemPackage

/// The parameters of a call: a value that is filled in on the caller's thread, and does not change once its
/// request is posted.
///
/// It owns the memory that the kernel may access (`op` points into `buffer`, `others` and `memory`).
///
/// Invariant: each buffer is claimed from `use` to `giveBackBuffers`, which is called once when the call
/// ends.
struct IOCall {
  let app: AppIO
  let device: Device
  let code: opp_ring_code
  var op: opp_ring_op
  /// The count of closes of the descriptor's gate when the call began.
  var closesBefore: UInt64
  /// The number of bytes to move; 0 for calls that move none.
  private(set) var total = 0
  /// The size of a datagram, or of the room for one, in bytes. A datagram goes in one piece in either class.
  private(set) var datagramCount = 0
  /// Whether a short transfer continues until all is done or the stream ends.
  var wantsAll = false
  /// Whether the file has a position of its own, like a socket or a pipe.
  var isStream = false
  /// The subject of error messages, where it is not a descriptor.
  var subject = Subject.none
  /// The time limit from the start of the call, as given by the caller.
  private(set) var limit: Duration?
  /// Where the caller stands by those who wait for it; nil where that changes nothing.
  var standing: Standing?
  /// The deadline on `CLOCK_MONOTONIC`, in nanoseconds.
  private(set) var deadline = UInt64.max
  private(set) var file = FileFacts()

  private(set) var buffer: IOBuffer?
  private var others: [IOBuffer] = []
  /// Memory for paths, addresses and vectors.
  private var memory: CallMemory?
  /// The vectors of a vectored transfer, followed by room for the vectors of one piece.
  private var vectors: UnsafeMutableBufferPointer<iovec>?

  enum Subject {
    case none
    case path(FilePath)
    case paths(FilePath, FilePath)
    case address(SocketAddress)
  }

  init(_ app: AppIO, _ code: opp_ring_code, on device: Device, descriptor: Int32 = -1) {
    self.app = app
    self.code = code
    self.device = device
    closesBefore = app.reactor.gates[descriptor].pointee.closes
    op = opp_ring_op(code, descriptor)
  }

  // MARK: Parameters

  /// Claims a buffer for a transfer of `range`, clamped to the buffer.
  mutating func use(_ buffer: IOBuffer, _ range: Range<Int>?) throws(IOError) {
    assert(self.buffer == nil)
    let range = range ?? 0..<buffer.count
    guard range.lowerBound >= 0, range.upperBound <= buffer.count, let address = buffer.address else {
      throw IOError(.configuration, "range \(range) is not within the buffer's 0..<\(buffer.count)")
    }
    try buffer.claim()
    self.buffer = buffer
    total = range.count
    op.address = UInt64(UInt(bitPattern: address + range.lowerBound))
  }

  /// Transfers all of the caller's memory, for as long as the caller lends it; later that of a buffer.
  mutating func borrow(_ bytes: UnsafeRawBufferPointer) {
    total = bytes.count
    op.address = UInt64(UInt(bitPattern: bytes.baseAddress))
  }

  /// Claims several whole buffers for one vectored transfer.
  mutating func use(_ buffers: [IOBuffer]) throws(IOError) {
    let stride = MemoryLayout<iovec>.stride
    let vectors = allocate(2 * buffers.count * stride).bindMemory(to: iovec.self, capacity: 2 * buffers.count)
    for (index, buffer) in buffers.enumerated() {
      do throws(IOError) {
        try buffer.claim()
      } catch {
        giveBackBuffers()
        throw error
      }
      others.append(buffer)
      total += buffer.count
      vectors[index] = iovec(iov_base: buffer.address, iov_len: buffer.count)
    }
    self.vectors = UnsafeMutableBufferPointer(start: vectors, count: 2 * buffers.count)
  }

  /// Uses the descriptor's own position, which a pipe or a terminal needs.
  mutating func useOwnPosition() {
    op.offset = .max
    isStream = true
  }

  /// Treats the buffer as a datagram, which is not divided.
  mutating func moveWhole() {
    datagramCount = total
    total = 0
    isStream = true
  }

  mutating func setLimit(_ limit: Duration) {
    self.limit = limit
    deadline = opp_now_ns().saturatingAdd(limit.unsignedNanoseconds)
  }

  /// Allocates memory that lives as long as the call.
  mutating func allocate(_ count: Int, alignment: Int = 8) -> UnsafeMutableRawPointer {
    let memory = memory ?? CallMemory()
    self.memory = memory
    return memory.allocate(count, alignment)
  }

  /// A copy of the path, as a C string.
  mutating func copy(_ path: FilePath) -> UInt64 {
    path.withPlatformString { text in
      let count = strlen(text) + 1
      let memory = allocate(count)
      memory.copyMemory(from: text, byteCount: count)
      return UInt64(UInt(bitPattern: memory))
    }
  }

  /// Releases the claims on the buffers; called once.
  func giveBackBuffers() {
    buffer?.giveBack()
    for buffer in others { buffer.giveBack() }
  }

  // MARK: Properties

  var movesBytes: Bool { total > 0 }
  var isClose: Bool { code == .OPP_RING_CLOSE }
  var isOpen: Bool { code == .OPP_RING_OPEN }

  /// Whether the peer decides when the call completes, whatever the file.
  var waitsForPeer: Bool {
    code == .OPP_RING_RECEIVE || code == .OPP_RING_RECEIVE_MESSAGE || code == .OPP_RING_ACCEPT
      || code == .OPP_RING_CONNECT || code == .OPP_RING_POLL
  }

  var writes: Bool {
    code == .OPP_RING_WRITE || code == .OPP_RING_WRITEV || code == .OPP_RING_WRITE_FIXED || sends
  }

  var sends: Bool {
    code == .OPP_RING_SEND || code == .OPP_RING_SEND_ZERO_COPY || code == .OPP_RING_SEND_MESSAGE
  }

  /// Whether the call only receives data, which a terminated app does not need. (R-FTS-07)
  var bringsIn: Bool {
    waitsForPeer || isOpen || code == .OPP_RING_READ || code == .OPP_RING_READV
      || code == .OPP_RING_READ_FIXED
  }

  /// Whether the call may be done inline, if it needs no waiting.
  var canBeInline: Bool {
    total > 0 && (code == .OPP_RING_READ || code == .OPP_RING_RECEIVE || code == .OPP_RING_SEND)
  }

  /// Whether the call may wait on its caller's worker, if the file is one on a device.
  var mayWaitOnWorker: Bool { total > 0 && code == .OPP_RING_READ && device == .storage && !isStream }

  /// Whether the call may wait for its descriptor with the workers of the app's scheduler.
  var mayWaitForReadiness: Bool { total > 0 && code == .OPP_RING_RECEIVE }

  /// Whether the reactor must do the rest after `moved` bytes inline. A read of a file may have stopped where
  /// the page cache ends; a stream returns what it has.
  func leavesRest(afterMoving moved: Int) -> Bool {
    moved > 0 && moved < total && (wantsAll || (code == .OPP_RING_READ && !isStream))
  }

  /// The poll events to wait for, where the descriptor returns EAGAIN.
  var pollEvents: UInt32 { UInt32(writes || code == .OPP_RING_CONNECT ? pollOut : pollIn) }

  // MARK: The file

  /// Finds out the kind of the file, which decides whether the call occupies the device. Runs on the caller's
  /// thread, and never waits for the file system, which may hang.
  mutating func lookAtFile() {
    if isOpen {
      let kind = opp_ring_look(&op)
      if kind >= 0 {
        file.learn(kindToOpen: kind, nonBlocking: op.flags & UInt32(O_NONBLOCK) != 0)
      } else if kind == -EAGAIN {
        // Otherwise the file does not exist, or the open will return the error.
        file.statBuffer = allocate(FileStatus.count)
      }
    } else if device == .storage, movesBytes, app.kind(of: self) == .other {
      // Of a file on a device, as most are, there is nothing to learn.
      let kind = opp_file_kind(op.fd)
      if kind >= 0 { file.learn(kindOfOpen: kind) }  // on failure the kernel will return the error
    }
  }

  // MARK: Kernel operations

  /// The operation of the call itself: `piece` bytes from `done` on.
  func operation(done: Int, piece: Int, file: FileFacts, _ registered: RegisteredBuffers?) -> opp_ring_op {
    var op = op
    if isOpen || (device == .storage && movesBytes) { op.second = file.needsThread ? 1 : 0 }
    guard movesBytes else { return op }
    if !isStream { op.offset += UInt64(done) }
    if vectors != nil {
      (op.address, op.length) = vectorsOfPiece(done, piece)
    } else {
      op.address += UInt64(done)
      op.length = UInt32(piece)
      if let registered { useRegistration(in: registered, of: &op) }
    }
    return op
  }

  /// A stat of the file to be opened.
  func stat(into memory: UnsafeMutableRawPointer) -> opp_ring_op {
    var op = op
    op.code = UInt8(opp_ring_code.OPP_RING_STAT.rawValue)
    op.flags = 0
    op.length = FileStatus.wanted
    op.second = UInt64(UInt(bitPattern: memory))
    return op
  }

  /// A poll until the operation would not block.
  var poll: opp_ring_op {
    var poll = opp_ring_op(.OPP_RING_POLL, op.fd)
    poll.flags = pollEvents
    return poll
  }

  /// Uses the buffer's registration, where it has one.
  private func useRegistration(in registered: RegisteredBuffers, of op: inout opp_ring_op) {
    guard !isStream, code == .OPP_RING_READ || code == .OPP_RING_WRITE,
      let number = buffer?.registration(in: registered)
    else { return }
    let fixed: opp_ring_code = code == .OPP_RING_READ ? .OPP_RING_READ_FIXED : .OPP_RING_WRITE_FIXED
    op.code = UInt8(fixed.rawValue)
    op.index = Int32(number)
  }

  /// The address and number of the vectors of a piece.
  private func vectorsOfPiece(_ done: Int, _ piece: Int) -> (UInt64, UInt32) {
    guard let vectors, let all = vectors.baseAddress else { return (0, 0) }
    let cut = all + others.count
    var (skip, left, count) = (done, piece, 0)
    for index in 0..<others.count where left > 0 {
      let vector = all[index]
      guard skip < vector.iov_len else {
        skip -= vector.iov_len
        continue
      }
      let length = min(vector.iov_len - skip, left)
      cut[count] = iovec(iov_base: vector.iov_base?.advanced(by: skip), iov_len: length)
      count += 1
      left -= length
      skip = 0
    }
    return (UInt64(UInt(bitPattern: cut)), UInt32(count))
  }
}

/// What is known of a call's file, as far as it decides where the call may wait.
struct FileFacts {
  /// The peer decides when the call completes, as with a FIFO or a terminal. So the call does not occupy the
  /// device.
  private(set) var waitsForPeer = false
  /// The kernel must run the call on a worker thread from the start.
  private(set) var needsThread = false
  /// For an open of unknown kind: the buffer of a stat that asks the device.
  var statBuffer: UnsafeMutableRawPointer?

  /// Records the kind of a file to be opened.
  mutating func learn(kindToOpen kind: Int32, nonBlocking: Bool) {
    waitsForPeer = !nonBlocking && [S_IFIFO, S_IFCHR].contains(mode_t(kind & 0xffff) & S_IFMT)
    needsThread = waitsForPeer || kind & OPP_FILE_ON_NO_DEVICE != 0
  }

  /// Records the kind of an open file.
  mutating func learn(kindOfOpen kind: Int32) {
    waitsForPeer = ![S_IFREG, S_IFBLK].contains(mode_t(kind & 0xffff) & S_IFMT)
    needsThread = kind & OPP_FILE_SERVED != 0
  }
}

/// Memory of a call that the kernel may touch.
private final class CallMemory {
  private var pieces: [UnsafeMutableRawPointer] = []

  func allocate(_ count: Int, _ alignment: Int) -> UnsafeMutableRawPointer {
    let piece = UnsafeMutableRawPointer.allocate(byteCount: count, alignment: alignment)
    pieces.append(piece)
    return piece
  }

  deinit { for piece in pieces { piece.deallocate() } }
}

/// The queue that a call goes through.
enum Device: Int, CaseIterable {
  case storage, network
  /// No queue: the call does not use a device.
  case none

  static let queued = [storage, network]
}

private let pollIn = 1
private let pollOut = 4
