internal import COpportune
import Dispatch
import Glibc
import Synchronization
import SystemPackage

/// What waits, and which the ring has no operation for.
extension AppIO {
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

  /// Has a thread that may wait call `body`: neither the caller's, nor a worker of a scheduler, nor one of
  /// Swift's pool, nor the reactor's.
  ///
  /// The caller waits for a socket that the thread closes. So the wait ends as every request does: at its
  /// deadline, by cancellation, or with the app. `body` then still runs to its end, and nobody gets its
  /// result.
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
    let (mine, theirs) = (FileDescriptor(rawValue: ends.0), ends.1)
    // Not as a socket: what a background app's sockets receive may be dropped.
    reactor.post(
      Control(refused: { _ = Glibc.close(mine.rawValue) }) { [self] in
        $0.adopt(mine.rawValue, isSocket: false, by: entry)
      })
    let answer = Answer<Value>()
    // A queue of its own has a thread as soon as it needs one. Those that share threads would wait for
    // others.
    DispatchQueue(label: "opportune.io.elsewhere").async {
      answer.set(body())
      _ = Glibc.close(theirs)
    }
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
    guard let value = answer.get() else { throw IOError(.unavailable, "a thread left no answer") }
    return value
  }

  /// An error of a step, told as one of the whole.
  static func error(_ step: IOError, in whole: String) -> IOError {
    IOError(step.code, "\(whole): \(step.message)")
  }
}
