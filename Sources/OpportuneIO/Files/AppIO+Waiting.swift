internal import COpportune
import Glibc
import SystemPackage

/// Blocking file calls, for a thread that must wait, such as one that writes a store step by step. The
/// reactor performs the requests, so other waiting callers are not delayed. They use the caller's memory
/// without a copy.
///
/// The results are those of `pread`, `pwrite` and `fdatasync`. A failure is returned as `-errno`; it is
/// `-ECANCELED` where the app was terminated or the broker shut down.
extension AppIO {
  package func readWaiting(_ file: Int32, into memory: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
    transferWaiting(.OPP_RING_READ, file, memory, offset)
  }

  package func writeWaiting(_ file: Int32, from memory: UnsafeRawBufferPointer, at offset: Int) -> Int {
    // The memory is only read.
    transferWaiting(.OPP_RING_WRITE, file, UnsafeMutableRawBufferPointer(mutating: memory), offset)
  }

  package func synchronizeDataWaiting(_ file: Int32) -> Int {
    number { () throws(IOError) -> Int in
      try performWaiting(call(.OPP_RING_FDATASYNC, .storage, FileDescriptor(rawValue: file)))
    }
  }

  private func transferWaiting(
    _ code: opp_ring_code, _ file: Int32, _ memory: UnsafeMutableRawBufferPointer, _ offset: Int
  ) -> Int {
    number { () throws(IOError) -> Int in
      var call = call(code, .storage, FileDescriptor(rawValue: file))
      try call.use(IOBuffer(borrowing: memory), nil)
      call.op.offset = UInt64(offset)
      call.wantsAll = true
      return try performWaiting(call)
    }
  }

  private func performWaiting(_ call: IOCall) throws(IOError) -> Int {
    var call = call
    call.standing = standing(on: call.device)
    var done = 0
    switch try tryInline(call) {
    case .whole(let moved): return moved
    case .part(let moved): done = moved
    }
    let request = request(of: call, done: done, within: nil)
    let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    defer { semaphore.deallocate() }
    semaphore.initialize(to: sem_t())
    sem_init(semaphore, 0, 0)
    request.setCaller(.thread(semaphore))
    post(request)
    while sem_wait(semaphore) != 0 {}  // a signal may interrupt the wait
    sem_destroy(semaphore)
    return try request.value()
  }

  private func number(_ body: () throws(IOError) -> Int) -> Int {
    do throws(IOError) {
      return try body()
    } catch {
      if case .system(let errno) = error.code { return -Int(errno.rawValue) }
      return -Int(ECANCELED)
    }
  }
}
