import OpportuneIO

/// The guarantees of a broker for calls, over plain lists. Each call ends once, in a permitted way. No call
/// of a suspended app reaches the kernel, and completions are held meanwhile. No byte of a pipe is read
/// twice, out of order, or lost.
///
/// All events are reported by one thread, in the order in which it caused and observed them.
package final class RequestModel {
  /// A call that moves no byte of a pipe is `nothing`; a connection is refused where who listens has ended.
  package enum Kind: Sendable { case nothing, read, write, connect }

  package struct Call: Sendable {
    package let kind: Kind
    package let app: Int
    /// Of a connection: the app that listens.
    package let pipe: Int
    package let count: Int
    /// Whether a read goes on until it has all.
    package let fills: Bool
    package let hasDeadline: Bool
    package fileprivate(set) var isCancelled = false
    /// Its app was not suspended at some moment since the call.
    fileprivate var mayHaveRun = false
    fileprivate var hasEnded = false

    package init(
      _ kind: Kind, app: Int, pipe: Int = 0, count: Int = 0, fills: Bool = false, hasDeadline: Bool = false
    ) {
      self.kind = kind
      self.app = app
      self.pipe = pipe
      self.count = count
      self.fills = fills
      self.hasDeadline = hasDeadline
    }
  }

  package enum Outcome: Sendable {
    /// Bytes that were written, or the bytes that were read.
    case wrote(Int)
    case read([UInt8])
    case failed(IOError.Code)
  }

  private struct App {
    /// The moment of the suspension.
    var suspendedAt: Int?
    /// Whether the broker knows of the suspension, and all answers that it had given by then were seen.
    var isSynchronised = false
    var isTerminated = false
  }

  /// The bytes that go through a pipe are the numbers of their places.
  private struct Pipe {
    /// When each byte was put in, and whether a call has had it.
    var fedAt: [Int] = []
    var isRead: [Bool] = []
  }

  private var apps: [App]
  private var pipes: [Pipe]
  private var calls: [Call] = []
  private var moment = 0
  private var isShutDown = false
  package private(set) var problems: [String] = []
  /// Apps whose termination has returned.
  package private(set) var returned: Set<Int> = []

  package init(apps: Int, pipes: Int) {
    self.apps = [App](repeating: App(), count: apps)
    self.pipes = [Pipe](repeating: Pipe(), count: pipes)
  }

  package subscript(call: Int) -> Call { calls[call] }
  /// Calls that have not ended.
  package var open: [Int] { calls.indices.filter { !calls[$0].hasEnded } }
  package func isSuspended(_ app: Int) -> Bool { apps[app].suspendedAt != nil }
  package func isTerminated(_ app: Int) -> Bool { apps[app].isTerminated }
  package func fedCount(_ pipe: Int) -> Int { pipes[pipe].fedAt.count }

  private func expect(_ holds: Bool, _ problem: @autoclosure () -> String) {
    if !holds { problems.append(problem()) }
  }

  // MARK: What is done

  /// Before the call.
  package func submits(_ call: Call) -> Int {
    var call = call
    call.mayHaveRun = !isSuspended(call.app)
    calls.append(call)
    return calls.count - 1
  }

  /// Before the cancellation.
  package func cancels(_ call: Int) { calls[call].isCancelled = true }

  /// After a suspension has returned; before a resumption.
  package func changes(_ app: Int, isSuspended: Bool) {
    moment += 1
    if isSuspended {
      if apps[app].suspendedAt == nil { apps[app].suspendedAt = moment }
    } else {
      apps[app].suspendedAt = nil
      apps[app].isSynchronised = false
      for call in calls.indices where calls[call].app == app && !calls[call].hasEnded {
        calls[call].mayHaveRun = true
      }
    }
  }

  /// Before the termination, and after it has returned.
  package func terminates(_ app: Int) { apps[app].isTerminated = true }
  package func terminated(_ app: Int) { returned.insert(app) }

  /// Before the shutdown.
  package func shutsDown() { isShutDown = true }

  /// All that was done so far is known to the broker, and the answers that it gave by then were seen.
  ///
  /// - Parameter terminated: the apps whose termination had returned when the waiting for this began.
  package func synchronised(terminated: Set<Int>) {
    for app in apps.indices where isSuspended(app) { apps[app].isSynchronised = true }
    let left = open.filter { terminated.contains(calls[$0].app) }
    expect(left.isEmpty, "the termination has returned, and calls \(left) of the app have not ended")
  }

  // MARK: What is seen

  package func ended(_ number: Int, _ outcome: Outcome) {
    let call = calls[number]
    expect(!call.hasEnded, "call \(number) ends twice")
    calls[number].hasEnded = true
    let app = apps[call.app]
    let isHeld = app.suspendedAt != nil && !app.isTerminated && !isShutDown
    expect(!(isHeld && app.isSynchronised), "call \(number) ends though app\(call.app) is suspended")
    switch outcome {
    case .wrote(let count):
      expect(
        call.kind != .read && count == call.count, "call \(number) of \(call.count) bytes has moved \(count)")
      expect(call.mayHaveRun, "call \(number) was done though app\(call.app) was suspended all the time")
    case .read(let bytes):
      expect(
        call.kind == .read
          && (call.fills ? bytes.count == call.count : (1...call.count).contains(bytes.count)),
        "call \(number) of \(call.count) bytes has read \(bytes.count)")
      expect(call.mayHaveRun, "call \(number) was done though app\(call.app) was suspended all the time")
      take(bytes, number, call, heldSince: isHeld ? app.suspendedAt : nil)
    case .failed(let code):
      let isAllowed =
        switch code {
        case .cancelled: call.isCancelled
        case .deadlineExceeded: call.hasDeadline
        case .terminated: app.isTerminated || isShutDown
        case .unavailable: isShutDown
        case .system: call.kind == .connect && (apps[call.pipe].isTerminated || isShutDown)
        default: false
        }
      expect(isAllowed, "call \(number) fails with \(code)")
    }
  }

  private func take(_ bytes: [UInt8], _ number: Int, _ call: Call, heldSince: Int?) {
    var last = -1
    for byte in bytes {
      let place = Int(byte)
      guard place < fedCount(call.pipe), !pipes[call.pipe].isRead[place] else {
        return problems.append("call \(number) has read byte \(place), which was read before or never there")
      }
      pipes[call.pipe].isRead[place] = true
      expect(
        place > last && (call.fills || last < 0 || place == last + 1), "call \(number) has read \(bytes)")
      last = place
      if let heldSince, pipes[call.pipe].fedAt[place] > heldSince {
        problems.append(
          "call \(number) ends with byte \(place), which came while app\(call.app) was suspended")
      }
    }
  }

  /// So many bytes were put into a pipe.
  package func fed(_ pipe: Int, _ count: Int) {
    moment += 1
    for _ in 0..<count {
      pipes[pipe].fedAt.append(moment)
      pipes[pipe].isRead.append(false)
    }
  }

  /// So many bytes are out of a pipe that was fed.
  package func sees(consumed: Int, of pipe: Int) {
    let most = calls.reduce(0) { $1.kind == .read && $1.pipe == pipe && $1.mayHaveRun ? $0 + $1.count : $0 }
    expect(
      consumed <= most,
      "\(consumed) bytes are out of pipe\(pipe), and calls of apps that were not suspended for \(most)")
  }

  /// All is over: so many bytes are out of a pipe.
  package func finallySees(consumed: Int, of pipe: Int) {
    let had = pipes[pipe].isRead.count { $0 }
    // What the kernel moved for a call that was told another end is lost.
    let mayBeLost = calls.reduce(0) { sum, call in
      guard call.kind == .read, call.pipe == pipe, call.mayHaveRun else { return sum }
      let wasCut =
        apps[call.app].isTerminated || isShutDown || call.hasDeadline || (call.isCancelled && call.fills)
      return wasCut ? sum + call.count : sum
    }
    expect(
      (had...had + mayBeLost).contains(consumed),
      "\(consumed) bytes are out of pipe\(pipe), and calls had \(had)")
  }

  /// All is over: so many bytes came through the pipe that is written to.
  package func finallySees(written: Int, to pipe: Int) {
    let all = calls.filter { $0.kind == .write && $0.pipe == pipe }
    let most = all.reduce(0) { $1.mayHaveRun ? $0 + $1.count : $0 }
    expect(written <= most, "\(written) bytes came through pipe\(pipe), and \(most) were to be written")
  }
}
