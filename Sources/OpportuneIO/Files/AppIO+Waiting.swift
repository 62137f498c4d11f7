internal import COpportune
import Glibc
import SystemPackage

/// Files for a thread that has to wait where it is, as one that writes a store step by step. The broker's own thread does the
/// rest, so that whoever else waits is not held up. Memory is the caller's, and is copied nowhere.
///
/// Answers are those of `pread`, `pwrite` and `fdatasync`, but `-errno` where these fail, `-ECANCELED` where the app was
/// terminated or the broker shut down.
extension AppIO {
  package func readWaiting(_ file: Int32, into memory: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
    number { () throws(IOError) -> Int in
      try performWaiting(transfer(.OPP_RING_READ, file, memory, offset))
    }
  }

  /// In up to four requests at once: of each only one chunk is in flight. Where one fails, others may have written.
  package func writeWaiting(_ file: Int32, from memory: UnsafeRawBufferPointer, at offset: Int) -> Int {
    // Only read from.
    let memory = UnsafeMutableRawBufferPointer(mutating: memory)
    let count = min(4, max(1, memory.count / owner.configuration.storage.chunk))
    let step = max(1, (memory.count / count + pageBytes - 1) / pageBytes * pageBytes)
    return number { () throws(IOError) -> Int in
      var requests: [Request] = []
      for start in stride(from: 0, to: memory.count, by: step) {
        let part = UnsafeMutableRawBufferPointer(rebasing: memory[start..<min(start + step, memory.count)])
        requests.append(try transfer(.OPP_RING_WRITE, file, part, offset + start))
      }
      wait(for: requests)
      var done = 0
      for request in requests {
        // What comes after a part that was cut short does not count.
        if done == request.op.offset - UInt64(offset) { done += try request.value() }
      }
      return done
    }
  }

  package func synchronizeDataWaiting(_ file: Int32) -> Int {
    number { () throws(IOError) -> Int in
      try performWaiting(request(.OPP_RING_FDATASYNC, .storage, FileDescriptor(rawValue: file)))
    }
  }

  private func transfer(
    _ code: opp_ring_code, _ file: Int32, _ memory: UnsafeMutableRawBufferPointer, _ offset: Int
  ) throws(IOError) -> Request {
    let request = try request(code, .storage, FileDescriptor(rawValue: file))
    try request.use(IOBuffer(lending: memory), nil)
    request.op.offset = UInt64(offset)
    request.wantsAll = true
    return request
  }

  private func performWaiting(_ request: Request) throws(IOError) -> Int {
    if let value = try tryAtOnce(request) { return value }
    wait(for: [request])
    return try request.value()
  }

  private func wait(for requests: [Request]) {
    let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    defer { semaphore.deallocate() }
    semaphore.initialize(to: sem_t())
    sem_init(semaphore, 0, 0)
    for request in requests { request.caller = .thread(semaphore) }
    for request in requests { owner.post(request) }
    for _ in requests {
      while sem_wait(semaphore) != 0 {}  // a signal interrupts it
    }
    sem_destroy(semaphore)
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

private let pageBytes = Int(sysconf(Int32(_SC_PAGESIZE)))
