internal import COpportune
import Glibc
import OpportuneScheduler
import Synchronization
import SystemPackage

/// What waits, and which the ring has no operation for.
extension AppIO {
  /// Has a thread that may wait call `body`: neither the caller's, nor a worker of a scheduler, nor one of
  /// Swift's pool, nor the reactor's.
  ///
  /// The caller waits for a socket that the thread closes. So the wait ends as every request does: at its
  /// deadline, by cancellation, or with the app. `body` then still runs to its end, and nobody gets its
  /// result.
  ///
  /// - Throws: ``IOError``: `unavailable` where there is no thread.
  func elsewhere<Value: Sendable>(
    on device: Device, within limit: Duration?, _ body: @escaping @Sendable () -> Value
  ) async throws(IOError) -> Value {
    var ends: (Int32, Int32) = (-1, -1)
    let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    let made = withUnsafeMutableBytes(of: &ends) {
      socketpair(AF_UNIX, kind, 0, $0.assumingMemoryBound(to: Int32.self).baseAddress)
    }
    guard made == 0 else {
      let code = Errno(rawValue: errno)
      throw IOError(.system(code), "socketpair: \(code)")
    }
    let mine = FileDescriptor(rawValue: ends.0)
    let isForeground =
      entry.source.view.state(on: device) == .active || standing(on: device)?.donatedBand != nil
    let answer = Answer<Value>()
    let thread = ThreadElsewhere(closing: ends.1, isForeground: isForeground) { answer.set(body()) }
    let refused = {
      thread.end()
      _ = Glibc.close(mine.rawValue)
    }
    reactor.post(
      Control(refused: refused) { [self] in
        // Not as a socket: what a background app's sockets receive may be dropped.
        $0.adopt(mine.rawValue, isSocket: false, by: entry)
        thread.start()
      })
    do throws(IOError) {
      var call = call(.OPP_RING_RECEIVE, device, mine)
      try call.use(try IOBuffer(count: 1, alignment: 16), nil)
      call.isStream = true
      try await perform(call, within: limit)
    } catch {
      try? await close(mine)
      throw error
    }
    try? await close(mine)  // the answer is there anyway
    guard let value = answer.get() else { throw IOError(.unavailable, "no thread that may wait") }
    return value
  }

  /// An error of a step, told as one of the whole.
  static func error(_ step: IOError, in whole: String) -> IOError {
    IOError(step.code, "\(whole): \(step.message)")
  }
}

/// What a thread elsewhere leaves for its caller.
private final class Answer<Value: Sendable>: @unchecked Sendable {
  // Sendable: written by that thread before `isThere`, and read by the caller after it.
  private var value: Value?
  private let isThere = Atomic<Bool>(false)

  func set(_ value: Value) {
    self.value = value
    isThere.store(true, ordering: .releasing)  // see get()
  }

  // acquiring: pairs with set().
  func get() -> Value? { isThere.load(ordering: .acquiring) ? value : nil }
}

/// A thread that makes one call. The reactor starts it, so it begins in the reactor's ordinary class: one
/// that a background worker started would keep that worker's class, and one of a pool that of whoever had
/// it made.
private final class ThreadElsewhere: Sendable {
  private let socket: Int32
  private let isForeground: Bool
  private let body: @Sendable () -> Void

  /// - Parameter socket: closed by ``end()``, at which the caller waits.
  init(closing socket: Int32, isForeground: Bool, _ body: @escaping @Sendable () -> Void) {
    self.socket = socket
    self.isForeground = isForeground
    self.body = body
  }

  /// The caller waits no more. Once.
  func end() { _ = Glibc.close(socket) }

  /// Starts it, where there is room for a thread.
  func start() {
    let context = Unmanaged.passRetained(self)
    let main: @convention(c) (UnsafeMutableRawPointer?) -> Void = { context in
      guard let context else { return }
      Unmanaged<ThreadElsewhere>.fromOpaque(context).takeRetainedValue().run()
    }
    if opp_thread_start("opportune-wait", 0, main, context.toOpaque()) != 0 {
      end()
      context.release()
    }
  }

  private func run() {
    if !isForeground {
      // Not SCHED_IDLE, which a process without privilege does not leave, should the app come to the front.
      var last = opp_sched_params()
      last.policy = OPP_CLASS_NORMAL
      last.nice = 19
      _ = opp_thread_set_sched(0, &last)
    }
    body()
    end()
  }
}
