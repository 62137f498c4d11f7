internal import COpportune
import Glibc
import Synchronization

/// Buffers that are registered with the ring: their pages are pinned once, not at every direct read or write.
///
/// One allocation, divided into equal buffers. It is retained by its buffers and by the reactor, so it
/// outlives the ring and every request.
final class RegisteredBuffers: @unchecked Sendable {
  // Sendable: `isRegistered` belongs to the reactor's thread; each buffer belongs to the thread that has
  // taken it.
  let count: Int
  let size: Int
  private let memory: UnsafeMutableRawBufferPointer
  private let taken: [Flag]
  /// Whether the kernel has registered them; otherwise they are ordinary buffers.
  var isRegistered = false

  private final class Flag: Sendable {
    let isTaken = Atomic<Bool>(false)
  }

  init(_ setting: IOConfiguration.RegisteredBuffers) {
    count = setting.count
    size = setting.size
    memory = .allocate(byteCount: count * size, alignment: 4096)
    taken = (0..<count).map { _ in Flag() }
  }

  deinit { memory.deallocate() }

  /// Takes a free buffer, zeroed; nil where all are in use. Never waits.
  func take() -> (index: Int, memory: UnsafeMutableRawBufferPointer)? {
    for index in 0..<count where !taken[index].isTaken.exchange(true, ordering: .acquiring) {
      let buffer = self[index]
      _ = buffer.initializeMemory(as: UInt8.self, repeating: 0)
      return (index, buffer)
    }
    return nil
  }

  func giveBack(_ index: Int) { taken[index].isTaken.store(false, ordering: .releasing) }

  private subscript(index: Int) -> UnsafeMutableRawBufferPointer {
    UnsafeMutableRawBufferPointer(rebasing: memory[index * size..<(index + 1) * size])
  }

  /// Registers the buffers; called on the reactor's thread before its first request. Returns 0 or -errno.
  func register(with ring: OpaquePointer) -> Int32 {
    let vectors = (0..<count).map { iovec(iov_base: self[$0].baseAddress, iov_len: size) }
    let result = vectors.withUnsafeBufferPointer { list -> Int32 in
      guard let first = list.baseAddress else { return 0 }
      return opp_ring_register_buffers(ring, first, UInt32(count))
    }
    isRegistered = result == 0
    return result
  }
}

extension IOBroker {
  /// Takes one of the buffers of ``IOConfiguration/registeredBuffers``, zeroed; nil where none is free or
  /// there are none. It is returned with the release of its last reference. Any thread; never waits.
  public func registeredBuffer() -> IOBuffer? { reactor.registered.flatMap { IOBuffer(from: $0) } }
}
