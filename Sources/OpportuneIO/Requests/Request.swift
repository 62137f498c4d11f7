internal import COpportune
import Glibc
import Synchronization
import SystemPackage

/// One call: from the caller's thread to the reactor's, to the kernel, and back.
///
/// It owns what the kernel may touch (`op` points into `buffers` and `scratch`) and is retained by the tag that the
/// kernel carries, so nothing of it is freed before the last completion. The caller fills it in and posts it; from then
/// on it is the reactor thread's alone, until `caller` is resumed: then the caller reads `outcome`.
final class Request: Message, @unchecked Sendable {
  /// Who waits for the answer.
  enum Caller {
    case task(UnsafeContinuation<Void, Never>)
    /// Its memory is lent: it goes on when the kernel has let go of that, whatever ends the request before. The semaphore
    /// is gone once it does.
    case thread(UnsafeMutablePointer<sem_t>)

    func resume() {
      switch self {
      case .task(let continuation): continuation.resume()
      case .thread(let semaphore): sem_post(semaphore)
      }
    }
  }

  enum Outcome {
    case pending
    case value(Int)
    case failed(IOError.Code)
  }

  enum Phase {
    case new
    case queued(IOScheduler<Request>.Ticket)
    /// Outside of the queues: a suspended app's, or a close that waits for what is in flight.
    case parked
    /// In the kernel, or waiting for room in the ring.
    case inFlight
    case ended
  }

  enum Subject {
    case none
    case path(FilePath)
    case paths(FilePath, FilePath)
    case address(SocketAddress)
  }

  let app: AppIO
  let device: Device
  let code: opp_ring_code
  var op = opp_ring_op()
  /// Closes of its descriptor when the call began: see ``CallersByDescriptor``.
  var closesBefore: UInt64
  /// Bytes that are to be moved; 0 for requests that move none.
  var total = 0
  /// Bytes of a datagram, or room for one, which goes in one piece whatever its class.
  var datagramCount = 0
  /// Whether a short transfer goes on until all is done or the stream ends.
  var wantsAll = false
  /// Whether the file has a position of its own that is used.
  var isStream = false
  /// Whether it is of a pipe, a terminal or the like, which waits for somebody at the other end.
  var isOfStream = false
  /// Of an open.
  var looks = Look.none
  var scratchOfLook: UnsafeMutableRawPointer?
  /// What it is about, where that is no descriptor: for messages.
  var subject = Subject.none
  /// From the call on, as it was given.
  var limit: Duration?
  /// `CLOCK_MONOTONIC` in nanoseconds.
  var deadline = UInt64.max
  /// The reactor's: its place among the timers.
  var timer: Deadline?
  var buffers: [IOBuffer] = []
  /// Paths, addresses, vectors.
  var scratch: [UnsafeMutableRawPointer] = []
  /// Of a vectored transfer: in `scratch` the vectors, and as much room for those of a piece.
  var vectorCount = 0
  var caller: Caller?
  var outcome = Outcome.pending
  /// [answer] Stored with release after `outcome`, loaded with acquire before it is read. The runtime orders the two as
  /// well, but where the answer comes before the caller has suspended the thread sanitizer does not see that.
  private let isAnswered = Atomic<Bool>(false)

  // The reactor's.
  /// In the order in which it has heard of them.
  var number: UInt64 = 0
  var phase = Phase.new
  var grant: IOScheduler<Request>.Grant?
  /// Its place in the queue, from its first grant on.
  var ticket: IOScheduler<Request>.Ticket?
  var done = 0
  var piece = 0
  /// When its present piece was queued, or its app resumed since, and when it was sent.
  var queuedAt: UInt64 = 0
  var sentAt: UInt64 = 0
  var isPolling = false
  var retries = 0
  /// Whether the kernel has it with an I/O priority, or had, and refused.
  var carriesPriority = false
  var hasLostPriority = false
  var firstResult: Int32?
  /// Whether its socket sends with a copy only.
  var needsCopy = false
  /// Of a close that was sent: as whose it counts.
  var closeClass: IOClass?
  /// Of an open that has a thread to wait on: as whose it counts.
  var openClass: IOClass?
  /// Why it is to end before its time, if it is.
  var reason: IOError.Code?
  /// Whether the caller has its answer already.
  var isDetached = false
  /// Whether it is such, and an open on a thread of the pool's.
  var isLost = false
  var indexInApp = -1
  var links = RequestsByDescriptor.Links()

  init(_ app: AppIO, _ code: opp_ring_code, on device: Device, descriptor: Int32 = -1) {
    self.app = app
    self.code = code
    self.device = device
    closesBefore = app.reactor.callers.closes(of: descriptor)
    op.code = UInt8(code.rawValue)
    op.fd = descriptor
  }

  deinit {
    assert(!links.isListed)
    for memory in scratch { memory.deallocate() }
  }

  override func arrive(at reactor: Reactor) { reactor.submit(self) }

  override func refuse() {
    releaseBuffers()
    outcome = .failed(.unavailable)
    answer()
  }

  /// Has the caller go on.
  func answer() { takeAnswer()?.resume() }

  /// The caller, to be resumed; the request may not be touched afterwards.
  func takeAnswer() -> Caller? {
    guard let caller else { return nil }
    self.caller = nil
    isAnswered.store(true, ordering: .releasing)
    return caller
  }

  /// Whether a thread waits for it.
  var lendsMemory: Bool { if case .thread? = caller { true } else { false } }

  func releaseBuffers() {
    giveBackBuffers()
    buffers = []
  }

  /// For others' use, without letting go of them; once.
  func giveBackBuffers() {
    for buffer in buffers { buffer.giveBack() }
  }

  // MARK: What the kernel points to

  /// Claims `range` of a buffer, as far as it goes, for a transfer.
  func use(_ buffer: IOBuffer, _ range: Range<Int>?) throws(IOError) {
    let range = range ?? 0..<buffer.count
    guard range.lowerBound >= 0, range.upperBound <= buffer.count, let address = buffer.address else {
      throw IOError(.configuration, "range \(range) is not within the buffer's 0..<\(buffer.count)")
    }
    try buffer.claim()
    buffers.append(buffer)
    total = range.count
    op.address = UInt64(UInt(bitPattern: address + range.lowerBound))
  }

  /// Takes the descriptor's own position, which a pipe or a terminal needs.
  func useOwnPosition() {
    op.offset = .max
    isStream = true
  }

  /// Looks at what kind of file a transfer is of, which decides whether it occupies the device. Does not wait for the file's
  /// file system, which may hang.
  func lookAtFile() {
    lookAtPath()
    guard device == .storage, movesBytes else { return }
    let kind = opp_file_kind(op.fd)
    guard kind >= 0 else { return }  // the kernel will say what is wrong
    isOfStream = ![S_IFREG, S_IFBLK].contains(mode_t(kind & 0xffff) & S_IFMT)
    op.second = kind & OPP_FILE_SERVED != 0 ? 1 : 0
  }

  /// Names the buffer by its registration, where it has one.
  func useRegistration(in registered: RegisteredBuffers, of op: inout opp_ring_op) {
    guard !isStream, code == .OPP_RING_READ || code == .OPP_RING_WRITE,
      let number = buffers.first?.registration(in: registered)
    else { return }
    let fixed: opp_ring_code = code == .OPP_RING_READ ? .OPP_RING_READ_FIXED : .OPP_RING_WRITE_FIXED
    op.code = UInt8(fixed.rawValue)
    op.index = Int32(number)
  }

  /// The vectors of the present piece: where they are, and how many.
  func vectorsOfPiece() -> (UInt64, UInt32) {
    let all = scratch[0].assumingMemoryBound(to: iovec.self)
    let cut = all + vectorCount
    var (skip, left, count) = (done, piece, 0)
    for index in 0..<vectorCount where left > 0 {
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

  func allocate(_ count: Int, alignment: Int = 8) -> UnsafeMutableRawPointer {
    let memory = UnsafeMutableRawPointer.allocate(byteCount: count, alignment: alignment)
    scratch.append(memory)
    return memory
  }

  /// A copy of the path, as a C string.
  func copy(_ path: FilePath) -> UInt64 {
    path.withPlatformString { text in
      var count = 0
      while text[count] != 0 { count += 1 }
      let memory = allocate(count + 1)
      memory.copyMemory(from: text, byteCount: count + 1)
      return UInt64(UInt(bitPattern: memory))
    }
  }

  // MARK: What it is

  var movesBytes: Bool { total > 0 }
  var isClose: Bool { code == .OPP_RING_CLOSE }

  /// Whether what the kernel answers is a descriptor.
  var opensDescriptor: Bool {
    (code == .OPP_RING_OPEN || code == .OPP_RING_ACCEPT) && looks != .sent && !isPolling
  }

  /// Whether it waits for others, so that it does not occupy the device.
  var waitsForOthers: Bool {
    isOfStream || code == .OPP_RING_RECEIVE || code == .OPP_RING_RECEIVE_MESSAGE || code == .OPP_RING_ACCEPT
      || code == .OPP_RING_CONNECT || code == .OPP_RING_POLL
  }

  var writes: Bool {
    code == .OPP_RING_WRITE || code == .OPP_RING_WRITEV || code == .OPP_RING_WRITE_FIXED || sends
  }

  var sends: Bool {
    code == .OPP_RING_SEND || code == .OPP_RING_SEND_ZERO_COPY || code == .OPP_RING_SEND_MESSAGE
  }

  /// Whether it only brings something in, which an app that is terminated has no use for. (R-FTS-07)
  var isDroppedAtTermination: Bool {
    waitsForOthers || isPolling || code == .OPP_RING_OPEN || code == .OPP_RING_READ || code == .OPP_RING_READV
      || code == .OPP_RING_READ_FIXED
  }

  /// Whether it is of what an app that is terminated leaves finished. (R-FTS-07)
  var isFinishedAtTermination: Bool { holdsUpTheEnd && !isDroppedAtTermination }

  /// Whether the end of its app waits for the kernel's letting go. A pool's thread may stay in an open for ever, as of a FIFO
  /// that nobody else opens; if it ever ends, what was opened is closed.
  var holdsUpTheEnd: Bool { firstResult == nil && !(isDetached && code == .OPP_RING_OPEN) }

  /// Whether it may be done on the calling thread, as far as that takes no waiting.
  var canBeTriedInline: Bool {
    total > 0 && (code == .OPP_RING_READ || code == .OPP_RING_RECEIVE || code == .OPP_RING_SEND)
  }

  /// Whether the queue does the rest of what moved so many bytes at once. A read of a file may have stopped where the cache
  /// does; a stream gives what it has.
  func leavesRest(afterMoving moved: Int) -> Bool {
    moved > 0 && moved < total && (wantsAll || (code == .OPP_RING_READ && !isStream))
  }

  /// What the descriptor is polled for where it answers that it would have to wait.
  var pollEvents: UInt32 { UInt32(writes || code == .OPP_RING_CONNECT ? pollOut : pollIn) }

  // MARK: The answer

  /// The caller's, after it was resumed.
  func value() throws(IOError) -> Int {
    _ = isAnswered.load(ordering: .acquiring)
    switch outcome {
    case .value(let value): return value
    case .failed(let code): throw error(code)
    case .pending: throw IOError(.unavailable, "\(code) was never answered")
    }
  }

}

/// A deadline among the timers, which stays there until its time. It lets go of the request when that has its answer, so
/// that a deadline far off keeps neither the request nor its app and broker.
final class Deadline {
  var request: Request?
  init(_ request: Request) { self.request = request }
}

/// Which queue a request goes through.
enum Device: Int, CaseIterable {
  case storage, network
  /// None: it costs the device nothing.
  case none

  static let queued = [storage, network]
}

private let pollIn = 1
private let pollOut = 4
