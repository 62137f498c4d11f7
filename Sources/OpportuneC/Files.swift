// The names are those of C.
// swift-format-ignore-file: AlwaysUseLowerCamelCase

#if compiler(>=6.3)
  public import COpportuneC
  internal import Glibc
  internal import OpportuneBase
  internal import OpportuneIO
  internal import OpportuneScheduler
  internal import SystemPackage

  extension Refusal {
    init(_ error: IOError) {
      let number: CInt =
        switch error.code {
        case .configuration: EINVAL
        case .system(let code): code.rawValue
        case .cancelled: ECANCELED
        case .deadlineExceeded: ETIMEDOUT
        case .terminated, .unavailable: ESHUTDOWN
        case .bufferInUse: EBUSY
        case .endOfStream: ENODATA
        case .lineTooLong: EMSGSIZE
        case .hostNotResolved: EHOSTUNREACH
        }
      self.init(number, error.message)
    }
  }

  /// The caller's memory, which is its own again once the request has ended.
  struct Memory: @unchecked Sendable {
    // Sendable: it is handed over with the request, as the header says.
    let bytes: UnsafeMutableRawBufferPointer

    init(_ start: UnsafeRawPointer?, _ count: Int, atLeast least: Int = 1) throws {
      guard let start else { throw Refusal.invalid("bytes is NULL") }
      guard (least...1 << 30).contains(count) else {
        throw Refusal.invalid("count is \(count); expected \(least) to \(1 << 30)")
      }
      bytes = UnsafeMutableRawBufferPointer(start: UnsafeMutableRawPointer(mutating: start), count: count)
    }

    /// A buffer of the library's own: the kernel may still use it where a request has ended before its time.
    func copied() throws(IOError) -> IOBuffer { try IOBuffer(copying: UnsafeRawBufferPointer(bytes)) }

    func takeOver(_ buffer: IOBuffer, _ count: Int) throws {
      try buffer.withBytes { read in
        bytes.copyMemory(from: UnsafeRawBufferPointer(rebasing: read[..<min(count, bytes.count)]))
      }
    }
  }

  /// Who is told the result, on a worker of the app; nobody where the caller waits.
  private struct Completion: @unchecked Sendable {
    // Sendable: constants; the context is handed over.
    let function: @convention(c) (UnsafeMutableRawPointer?, Int64) -> Void
    let context: UnsafeMutableRawPointer?
  }

  /// What an operation comes to: a value, or the error number that says what it failed by.
  private func result<Success: Sendable>(
    _ operation: @Sendable () async throws -> Success
  ) async -> Result<Success, Refusal> {
    do {
      return .success(try await operation())
    } catch let error as IOError {
      return .failure(Refusal(error))
    } catch {
      return .failure(error as? Refusal ?? Refusal(EIO, "\(error)"))
    }
  }

  /// Carries out an operation, and has the calling thread wait for it.
  func waited<Success: Sendable>(
    _ operation: @escaping @Sendable () async throws -> Success
  ) throws -> Success {
    try waiting(-1, for: "the operation has not ended") { await result(operation) }.get()
  }

  /// Carries out a request, and has the caller wait where it has given no completion.
  func request(
    of own: CApp, _ completion: opportune_completion?, _ context: UnsafeMutableRawPointer?,
    _ operation: @escaping @Sendable (AppIO) async throws -> Int64
  ) throws -> Int64 {
    try own.checkIsAlive()
    let io = try own.makeIO()
    guard let completion else { return try waited { try await operation(io) } }
    let told = Completion(function: completion, context: context)
    own.begins()
    own.app.task {
      let value: Int64 =
        switch await result({ try await operation(io) }) {
        case .success(let value): value
        case .failure(let refusal): -Int64(refusal.number)
        }
      oppl_complete(told.function, told.context, value, own.scheduler.pending.raw)
      own.ended()
    }
    return 0
  }

  func limit(_ timeout: Int64) -> Duration? { timeout < 0 ? nil : .nanoseconds(timeout) }

  func descriptor(_ number: CInt) throws -> FileDescriptor {
    guard number >= 0 else { throw Refusal(EBADF, "descriptor is \(number)") }
    return FileDescriptor(rawValue: number)
  }

  private func offset(_ number: Int64) throws -> Int64? {
    guard number >= -1 else { throw Refusal.invalid("offset is \(number); expected 0 or more, or -1") }
    return number < 0 ? nil : number
  }

  // MARK: Files

  @c @implementation
  public func opportune_open(
    _ app: OpaquePointer?, _ path: UnsafePointer<CChar>?, _ flags: CInt, _ mode: UInt32, _ timeout: Int64,
    _ completion: opportune_completion?, _ context: UnsafeMutableRawPointer?
  ) -> Int64 {
    call {
      let own = try CApp.at(app)
      guard let path else { throw Refusal.invalid("path is NULL") }
      let file = FilePath(platformString: path)
      let access = flags & O_ACCMODE
      guard access != O_ACCMODE else { throw Refusal.invalid("flags have no access mode") }
      let options = FileDescriptor.OpenOptions(rawValue: flags & ~O_ACCMODE)
      return try request(of: own, completion, context) { io in
        Int64(
          try await io.open(
            file, FileDescriptor.AccessMode(rawValue: access), options: options,
            permissions: FilePermissions(rawValue: CModeT(mode & 0o7777)), within: limit(timeout)
          ).rawValue)
      }
    }
  }

  @c @implementation
  public func opportune_close(
    _ app: OpaquePointer?, _ file: CInt, _ completion: opportune_completion?,
    _ context: UnsafeMutableRawPointer?
  ) -> Int64 {
    call {
      let own = try CApp.at(app)
      let file = try descriptor(file)
      return try request(of: own, completion, context) { io in
        try await io.close(file)
        return 0
      }
    }
  }

  @c @implementation
  public func opportune_read(
    _ app: OpaquePointer?, _ file: CInt, _ bytes: UnsafeMutableRawPointer?, _ count: Int, _ at: Int64,
    _ timeout: Int64, _ completion: opportune_completion?, _ context: UnsafeMutableRawPointer?
  ) -> Int64 {
    call {
      let own = try CApp.at(app)
      let (file, at, memory) = (try descriptor(file), try offset(at), try Memory(bytes, count))
      return try request(of: own, completion, context) { io in
        let buffer = try IOBuffer(count: memory.bytes.count)
        let count = try await io.read(file, into: buffer, at: at, within: limit(timeout))
        try memory.takeOver(buffer, count)
        return Int64(count)
      }
    }
  }

  @c @implementation
  public func opportune_write(
    _ app: OpaquePointer?, _ file: CInt, _ bytes: UnsafeRawPointer?, _ count: Int, _ at: Int64,
    _ timeout: Int64, _ completion: opportune_completion?, _ context: UnsafeMutableRawPointer?
  ) -> Int64 {
    call {
      let own = try CApp.at(app)
      let (file, at, memory) = (try descriptor(file), try offset(at), try Memory(bytes, count))
      return try request(of: own, completion, context) { io in
        Int64(try await io.write(file, from: try memory.copied(), at: at, within: limit(timeout)))
      }
    }
  }

  @c @implementation
  public func opportune_sync(
    _ app: OpaquePointer?, _ file: CInt, _ timeout: Int64, _ completion: opportune_completion?,
    _ context: UnsafeMutableRawPointer?
  ) -> Int64 {
    call {
      let own = try CApp.at(app)
      let file = try descriptor(file)
      return try request(of: own, completion, context) { io in
        try await io.synchronize(file, within: limit(timeout))
        return 0
      }
    }
  }
#endif
