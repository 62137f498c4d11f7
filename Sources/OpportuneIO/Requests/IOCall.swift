internal import COpportune
import Glibc
internal import OpportuneBase
import SystemPackage

/// What a caller asks for: a value that is filled in on the caller's thread, and does not change once its
/// request is posted.
///
/// It holds what the kernel may touch (`op` points into `buffer`, `others` and `memory`).
///
/// Invariant: each of its buffers is claimed from `use` to `giveBackBuffers`, which whoever ends the call
/// calls once.
struct IOCall {
  let app: AppIO
  let device: Device
  let code: opp_ring_code
  var op: opp_ring_op
  /// Of its descriptor's gate, when the call began.
  var closesBefore: UInt64
  /// Bytes that are to be moved; 0 for calls that move none.
  private(set) var total = 0
  /// Bytes of a datagram, or room for one, which goes in one piece whatever its class.
  private(set) var datagramCount = 0
  /// Whether a short transfer goes on until all is done or the stream ends.
  var wantsAll = false
  /// Whether it uses a position of the file's own, as a socket or a pipe has.
  var isStream = false
  /// What it is about, where that is no descriptor: for messages.
  var subject = Subject.none
  /// From the call on, as it was given.
  private(set) var limit: Duration?
  /// `CLOCK_MONOTONIC` in nanoseconds.
  private(set) var deadline = UInt64.max
  private(set) var file = FileFacts()

  private(set) var buffer: IOBuffer?
  private var others: [IOBuffer] = []
  /// Paths, addresses, vectors.
  private var memory: CallMemory?
  /// Of a vectored transfer: its vectors, and behind them room for those of a piece.
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

  // MARK: Filling it in

  /// Claims `range` of a buffer, as far as it goes, for a transfer.
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

  /// Claims all of several buffers, for one vectored transfer.
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

  /// Takes the descriptor's own position, which a pipe or a terminal needs.
  mutating func useOwnPosition() {
    op.offset = .max
    isStream = true
  }

  /// Takes the buffer as a datagram, which is not cut.
  mutating func moveWhole() {
    datagramCount = total
    total = 0
    isStream = true
  }

  mutating func setLimit(_ limit: Duration) {
    self.limit = limit
    deadline = opp_now_ns().saturatingAdd(limit.unsignedNanoseconds)
  }

  /// Memory that lives as long as the call.
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

  /// Lets others use its buffers; once.
  func giveBackBuffers() {
    buffer?.giveBack()
    for buffer in others { buffer.giveBack() }
  }

  // MARK: What it is

  var movesBytes: Bool { total > 0 }
  var isClose: Bool { code == .OPP_RING_CLOSE }
  var isOpen: Bool { code == .OPP_RING_OPEN }

  /// Whether the other end decides when it is done, whatever the file.
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

  /// Whether it only brings something in, which an app that is terminated has no use for. (R-FTS-07)
  var bringsIn: Bool {
    waitsForPeer || isOpen || code == .OPP_RING_READ || code == .OPP_RING_READV
      || code == .OPP_RING_READ_FIXED
  }

  /// Whether it may be done inline, as far as that takes no waiting.
  var canBeInline: Bool {
    total > 0 && (code == .OPP_RING_READ || code == .OPP_RING_RECEIVE || code == .OPP_RING_SEND)
  }

  /// Whether the reactor does the rest of what moved so many bytes inline. A read of a file may have stopped
  /// where the cache does; a stream gives what it has.
  func leavesRest(afterMoving moved: Int) -> Bool {
    moved > 0 && moved < total && (wantsAll || (code == .OPP_RING_READ && !isStream))
  }

  /// What the descriptor is polled for where it answers that it would have to wait.
  var pollEvents: UInt32 { UInt32(writes || code == .OPP_RING_CONNECT ? pollOut : pollIn) }

  // MARK: Its file

  /// Looks at what kind of file it is of, which decides whether it occupies the device. Never waits for the
  /// file's file system, which may hang. On the caller's thread.
  mutating func lookAtFile() {
    if isOpen {
      let kind = opp_ring_look(&op)
      if kind >= 0 {
        file.learn(kindToOpen: kind, nonBlocking: op.flags & UInt32(O_NONBLOCK) != 0)
      } else if kind == -EAGAIN {
        // Else there is none, or the open will say what is wrong.
        file.statBuffer = allocate(FileStatus.count)
      }
    } else if device == .storage, movesBytes {
      let kind = opp_file_kind(op.fd)
      if kind >= 0 { file.learn(kindOfOpen: kind) }  // else the kernel will say what is wrong
    }
  }

  // MARK: What the kernel is asked

  /// The call itself, from `done` on, `piece` bytes of it.
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

  /// What is to be opened.
  func stat(into memory: UnsafeMutableRawPointer) -> opp_ring_op {
    var op = op
    op.code = UInt8(opp_ring_code.OPP_RING_STAT.rawValue)
    op.flags = 0
    op.length = FileStatus.wanted
    op.second = UInt64(UInt(bitPattern: memory))
    return op
  }

  /// When the descriptor would not have to wait.
  var poll: opp_ring_op {
    var poll = opp_ring_op(.OPP_RING_POLL, op.fd)
    poll.flags = pollEvents
    return poll
  }

  /// Names the buffer by its registration, where it has one.
  private func useRegistration(in registered: RegisteredBuffers, of op: inout opp_ring_op) {
    guard !isStream, code == .OPP_RING_READ || code == .OPP_RING_WRITE,
      let number = buffer?.registration(in: registered)
    else { return }
    let fixed: opp_ring_code = code == .OPP_RING_READ ? .OPP_RING_READ_FIXED : .OPP_RING_WRITE_FIXED
    op.code = UInt8(fixed.rawValue)
    op.index = Int32(number)
  }

  /// The vectors of a piece: where they are, and how many.
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
  /// Somebody at the other end decides when it is done, as of a FIFO or a terminal. So it does not occupy the
  /// device.
  private(set) var waitsForPeer = false
  /// It is to be done on a thread of the kernel's from the start.
  private(set) var needsThread = false
  /// Of an open whose file is not known without asking the device: room for the kernel's answer.
  var statBuffer: UnsafeMutableRawPointer?

  /// Of a file that is to be opened.
  mutating func learn(kindToOpen kind: Int32, nonBlocking: Bool) {
    waitsForPeer = !nonBlocking && [S_IFIFO, S_IFCHR].contains(mode_t(kind & 0xffff) & S_IFMT)
    needsThread = waitsForPeer || kind & OPP_FILE_ON_NO_DEVICE != 0
  }

  /// Of a file that is open.
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

/// Which queue a call goes through.
enum Device: Int, CaseIterable {
  case storage, network
  /// None: it costs the device nothing.
  case none

  static let queued = [storage, network]
}

private let pollIn = 1
private let pollOut = 4
