// The names are those of C.
// swift-format-ignore-file: AlwaysUseLowerCamelCase

#if compiler(>=6.3)
  internal import COpportuneC
  internal import Glibc
  internal import OpportuneBase

  /// What a handle of C stands for.
  protocol Handled: AnyObject {
    /// The kind of its handles, 1 to 255.
    static var kind: UInt8 { get }
    /// What it is called in an error.
    static var label: String { get }
  }

  /// A call's refusal: an error number, and what it says to people.
  struct Refusal: Error {
    let number: CInt
    let message: String

    init(_ number: CInt, _ message: String) {
      self.number = number
      self.message = message
    }

    static func invalid(_ message: String) -> Refusal { Refusal(EINVAL, message) }
  }

  /// Runs the body of a call of C. What it throws becomes the result, and the calling thread's last error.
  func call<Result: SignedInteger>(_ body: () throws -> Result) -> Result {
    do {
      return try body()
    } catch {
      let refusal = error as? Refusal ?? Refusal(EIO, "\(error)")
      oppl_say(refusal.message)
      return -Result(refusal.number)
    }
  }

  extension Handled {
    /// The handle of a new object, which it retains.
    func open() throws -> OpaquePointer {
      let retained = Unmanaged.passRetained(self)
      let handle = oppl_handle_open(Self.kind, retained.toOpaque())
      guard handle != 0, let pointer = OpaquePointer(bitPattern: UInt(handle)) else {
        retained.release()
        throw Refusal(ENOMEM, "no memory for the handle of \(Self.label)")
      }
      return pointer
    }

    /// Runs `body` with the object of a handle, which lives meanwhile.
    static func with<Result>(_ handle: OpaquePointer?, _ body: (Self) throws -> Result) throws -> Result {
      let number = UInt64(UInt(bitPattern: handle))
      guard let object = oppl_handle_enter(number, kind) else { throw stale(handle) }
      defer { leave(number) }
      return try Unmanaged<Self>.fromOpaque(object)._withUnsafeGuaranteedRef { try body($0) }
    }

    /// The object of a handle, which is used after the handle may be released.
    static func at(_ handle: OpaquePointer?) throws -> Self { try with(handle) { $0 } }

    /// Releases a handle; nothing where it is NULL.
    static func release(_ handle: OpaquePointer?) throws {
      guard let handle else { return }
      let number = UInt64(UInt(bitPattern: handle))
      guard oppl_handle_close(number, kind) else { throw stale(handle) }
      leave(number)
    }

    private static func leave(_ number: UInt64) {
      // The object belongs to the handles' last user.
      if let last = oppl_handle_leave(number) { Unmanaged<Self>.fromOpaque(last).release() }
    }

    private static func stale(_ handle: OpaquePointer?) -> Refusal {
      .invalid(handle == nil ? "\(label) is NULL" : "the handle is none of \(label), or it was released")
    }
  }

  /// Checks a pointer that the caller has to give.
  func required<Pointee>(_ pointer: UnsafeMutablePointer<Pointee>?, _ name: String) throws
    -> UnsafeMutablePointer<Pointee>
  {
    guard let pointer else { throw Refusal.invalid("\(name) is NULL") }
    return pointer
  }

  /// Gives the caller the handle of what `body` makes; NULL where that fails.
  func create<Object: Handled>(
    _ place: UnsafeMutablePointer<OpaquePointer?>?, _ name: String, _ body: () throws -> Object
  ) -> CInt {
    call {
      let result = try required(place, name)
      result.pointee = nil
      result.pointee = try body().open()
      return 0
    }
  }

  /// A string of the caller; `nil` for NULL.
  func text(_ pointer: UnsafePointer<CChar>?, _ name: String) throws -> String? {
    guard let pointer else { return nil }
    guard let text = String(validatingCString: pointer) else {
      throw Refusal.invalid("\(name) is not UTF-8")
    }
    return text
  }

  /// A count that can be waited for.
  final class Count: @unchecked Sendable {
    // Sendable: the C object is thread-safe.
    let raw: OpaquePointer

    init() throws {
      guard let raw = oppl_count_create() else { throw Refusal(ENOMEM, "no memory for a count") }
      self.raw = raw
    }

    deinit { oppl_count_free(raw) }

    var value: UInt64 { UInt64(oppl_count_read(raw)) }
    func add() { oppl_count_add(raw) }
    func subtract() { oppl_count_subtract(raw) }

    /// - Parameter what: is not over in time, as the error says.
    func wait(_ timeout: Int64, for what: @autoclosure () -> String) throws {
      guard oppl_count_wait(raw, timeout) == 0 else { throw timedOut(timeout, what()) }
    }
  }

  func timedOut(_ timeout: Int64, _ what: String) -> Refusal {
    Refusal(ETIMEDOUT, "\(what) after \(Duration.nanoseconds(timeout).inUnits)")
  }

  /// Waits on the calling thread for what is asynchronous in Swift. On a time-out the task is cancelled and
  /// goes on by itself.
  func waiting<Success: Sendable>(
    _ timeout: Int64, for what: @autoclosure () -> String,
    _ operation: @Sendable @escaping () async -> Success
  ) throws -> Success {
    let gate = try Count()
    gate.add()
    let answer = Answer<Success>()
    let task = Task.detached {
      answer.value = await operation()
      gate.subtract()
    }
    do {
      try gate.wait(timeout, for: what())
    } catch {
      task.cancel()
      throw error
    }
    guard let value = answer.value else { throw Refusal(EIO, "no answer") }
    return value
  }

  /// Written once, before the gate opens, and read after it.
  private final class Answer<Value>: @unchecked Sendable {
    var value: Value?
  }

  /// Copies as much of a structure as the caller knows; what the library does not know is 0.
  func fill<Value>(_ place: UnsafeMutableRawPointer, _ size: UInt32, _ value: Value) {
    withUnsafeBytes(of: value) { bytes in
      let known = min(bytes.count, Int(size))
      place.copyMemory(from: bytes.baseAddress ?? UnsafeRawPointer(place), byteCount: known)
      memset(place + known, 0, Int(size) - known)
    }
  }
#endif
