internal import COpportune
public import SystemPackage

/// Sending bytes and text, without a buffer.
extension AppIO {
  /// Sends all of the bytes. Returns when the kernel has accepted them. On a stream socket make one send at a
  /// time: the parts of two may interleave.
  ///
  /// What an active app sends, and the socket takes at once, goes straight from the memory of `bytes`. The
  /// rest is copied first, since the kernel may still read it when the call has returned, at a deadline or
  /// the end of the app. To send much again and again, ``send(_:from:_:within:)`` copies nothing.
  ///
  /// - Parameter bytes: at most 2^30. None are sent as an empty buffer is.
  /// - Throws: as ``send(_:from:_:within:)``; `configuration` for more than 2^30 bytes. After an error part
  ///   of them may have been sent; the message says how many.
  public func send(
    _ socket: FileDescriptor, _ bytes: some Collection<UInt8>, within limit: Duration? = nil
  ) async throws(IOError) {
    try require(bytes.count, in: 0...IOBuffer.countRange.upperBound, "bytes.count")
    var call = call(.OPP_RING_SEND, .network, socket)
    call.isStream = true
    call.wantsAll = true
    try begin(&call)
    let tried = bytes.withContiguousStorageIfAvailable { bytes in
      Result { () throws(IOError) in
        try trySending(UnsafeRawBufferPointer(bytes), &call, triesInline: limit != .zero)
      }
    }
    guard let tried else { return try await send(socket, from: IOBuffer(copying: bytes), within: limit) }
    switch try tried.get() {
    case .whole: return
    case .part(let done): _ = try await carryOut(request(of: call, done: done, within: limit))
    }
  }

  /// Sends a text in UTF-8, else as bytes.
  public func send(
    _ socket: FileDescriptor, _ text: some StringProtocol, within limit: Duration? = nil
  ) async throws(IOError) {
    try await send(socket, text.utf8, within: limit)
  }

  /// Sends a whole datagram, with a copy of the bytes.
  public func send(
    _ socket: FileDescriptor, _ bytes: some Collection<UInt8>, to address: SocketAddress,
    within limit: Duration? = nil
  ) async throws(IOError) {
    try await send(socket, from: IOBuffer(copying: bytes), to: address, within: limit)
  }

  /// Sends what goes without waiting. Has the call own a copy of what is left.
  private func trySending(
    _ bytes: UnsafeRawBufferPointer, _ call: inout IOCall, triesInline: Bool
  ) throws(IOError) -> InlineResult {
    call.borrow(bytes)
    var done = 0
    if triesInline {
      switch try tryInline(call) {
      case .whole(let moved): return .whole(moved)
      case .part(let moved): done = moved
      }
    }
    try call.use(IOBuffer(copying: bytes, from: done), nil)
    return .part(done)
  }
}
