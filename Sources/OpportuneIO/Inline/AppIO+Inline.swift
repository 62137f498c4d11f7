internal import COpportune
import Glibc
import OpportuneScheduler
import SystemPackage

/// The inline fast path: a call of the foreground, or of who is waited for there, that needs no waiting is
/// done on its caller's thread. A queue could not serve it any earlier.
extension AppIO {
  /// The result of an inline attempt.
  enum InlineResult {
    /// The call is complete.
    case whole(Int)
    /// This many bytes were moved, perhaps none; the reactor does the rest.
    case part(Int)
  }

  /// Tries a read, a receive or a send inline. If the call ends here, its buffers are given back.
  ///
  /// - Parameter done: bytes of a receive that were moved before.
  func tryInline(_ call: IOCall, done: Int = 0) throws(IOError) -> InlineResult {
    guard reactor.triesInline, call.canBeInline else { return .part(done) }
    // A direct read never ends without waiting: it would be asked for in vain.
    let kind = call.mayWaitOnWorker ? kind(of: call) : .other
    if kind == .direct { return .part(done) }
    var op = call.op
    op.address += UInt64(done)
    op.length = UInt32(min(call.total - done, 1 << 30))
    let tried = doInline(on: call.device, call.op.fd, since: call.closesBefore, by: call.standing) {
      let moved = kind == .cached ? opp_ring_try_buffered(&op) : opp_ring_try(&op)
      // Counted inside the gate: the app's statistics include this call however soon the app ends.
      if moved >= 0 {
        let isWhole = moved == 0 || !call.leavesRest(afterMoving: done + Int(moved))
        entry.inline.count(Int(moved), writes: call.writes, isWhole: isWhole)
      } else if !Self.isNoAnswer(moved) {
        entry.inline.countFailure()
      }
      return moved
    }
    guard let moved = tried, !Self.isNoAnswer(moved) else { return .part(done) }
    if moved > 0, call.leavesRest(afterMoving: done + Int(moved)) { return .part(done + Int(moved)) }
    call.giveBackBuffers()
    // Do not repeat the call: a socket reports some errors only once.
    guard moved >= 0 else { throw call.error(.system(Errno(rawValue: -moved)), done: done) }
    return .whole(done + Int(moved))
  }

  /// Waits for a receive's descriptor where the workers of the app's scheduler wait, and receives then: no
  /// other thread is in between. For a socket that the broker has made, of an active app. If the call ends
  /// here, its buffers are given back.
  ///
  /// A close of the descriptor, the end of the app and a cancellation end it as they end a request. What
  /// comes while the app is suspended, or in the background, is received when it is its turn, by the reactor.
  func receiveOnWorker(_ call: IOCall, done: Int) async throws(IOError) -> InlineResult {
    guard reactor.receivesOnWorkers, let readiness = entry.readiness, readiness.watches(call.op.fd) else {
      return .part(done)
    }
    let wait = ReceiveWait(call, readiness)
    var done = done
    while entry.source.view.state(on: call.device) == .active {
      switch await wait.wait(done: done) {
      case .refused: return .part(done)
      case .cancelled:
        call.giveBackBuffers()
        throw call.error(.cancelled, done: done)
      case .ended(let request): return .whole(try request.value())
      case .again: break
      }
      switch try tryInline(call, done: done) {
      case .whole(let moved): return .whole(moved)
      case .part(let moved): done = moved
      }
    }
    return .part(done)
  }

  /// What the call's descriptor is.
  func kind(of call: IOCall) -> DescriptorKinds.Kind {
    reactor.descriptorKinds.kind(of: call.op.fd, since: call.closesBefore)
  }

  /// Reads on the calling worker, and waits for the device there: nothing is handed over, and nobody woken.
  /// For a read of at most ``ReadsOnWorkers/largest`` bytes of an active app. Where the worker has a run
  /// token, another has it meanwhile; a job that runs beside the tokens reads here as well, a demoted one
  /// too, raised for that time if it may be (decision 0035). If the call ends here, its buffers are given
  /// back.
  ///
  /// A close of the descriptor and the end of the app wait for it, as for a request that the kernel has. A
  /// cancellation does not end it sooner, as it ends no request that is at the device.
  func tryOnWorker(_ call: IOCall, done: Int) throws(IOError) -> InlineResult {
    guard call.mayWaitOnWorker, call.total - done <= ReadsOnWorkers.largest, reactor.waitsOnWorkers,
      kind(of: call) != .other
    else { return .part(done) }
    var done = done
    repeat {
      guard reactor.readsOnWorkers.begin() else { return .part(done) }
      let left = call.total - done
      func end() { if reactor.readsOnWorkers.end(bytes: left) { reactor.lookAgain() } }
      var op = call.operation(done: done, piece: left, file: FileFacts(), nil)
      op.priority = UInt8(reactor.readsOnWorkers.priority.rawValue)
      // Around the gates and the count: a demoted worker has left them when it is lowered again, and may be
      // stopped then.
      let result: Int32?? = WorkerWait.perform {
        defer { end() }
        return doInline(on: call.device, op.fd, since: call.closesBefore, by: call.standing) { [entry, op] in
          let moved = withUnsafePointer(to: op) { opp_ring_read($0) }
          if moved >= 0 {
            let isWhole = moved == 0 || !call.wantsAll || done + Int(moved) == call.total
            entry.inline.count(Int(moved), writes: false, isWhole: isWhole)
          } else if !Self.isNoAnswer(moved) {
            entry.inline.countFailure()
          }
          return moved
        }
      }
      if result == nil { end() }
      guard case .some(.some(let moved)) = result, !Self.isNoAnswer(moved) else { return .part(done) }
      guard moved >= 0 else {
        call.giveBackBuffers()
        throw call.error(.system(Errno(rawValue: -moved)))
      }
      done += Int(moved)
      if moved == 0 || !call.wantsAll { break }
    } while done < call.total
    call.giveBackBuffers()
    return .whole(done)
  }

  /// Whether the reactor must try the call again from the start.
  private static func isNoAnswer(_ result: Int32) -> Bool {
    result == -EAGAIN || result == -EOPNOTSUPP || result == -EINTR
  }

  /// Calls `body` on this thread; `body` waits for the device at most, since a close and the app's end wait
  /// for it. Requires that the app is active, or at least not suspended where somebody of the foreground
  /// waits for the caller. Otherwise the result is nil, as also when the app has ended or the descriptor may
  /// have been closed since the call began: see ``InlineGate``.
  func doInline(
    on device: Device, _ descriptor: Int32, since closes: UInt64, by standing: Standing? = nil,
    unlessSuspended: Bool = false, _ body: () -> Int32
  ) -> Int32? {
    func mayCall() -> Bool {
      let view = entry.source.view
      let state = view.state(on: device)
      return state == .active || (unlessSuspended && state != .suspended)
        || (standing?.donatedBand != nil && view.takesDonations(on: device))
    }
    // Asked before as well: a thread of the background may be stopped inside, where closes wait for it, also
    // of other descriptors with the same gate.
    guard mayCall() else { return nil }
    return inside(entry.inline.gate, of: .app, since: 0) {
      inside(reactor.gates[descriptor].pointee, of: .descriptor(descriptor), since: closes) {
        guard mayCall() else { return nil }
        reactor.configuration.onInlineCall?()
        return body()
      }
    }
  }

  private enum GateOwner {
    case app
    case descriptor(Int32)
  }

  /// Calls `body` inside a gate, if the gate admits the caller. If the reactor waits at the gate, the last
  /// caller to leave notifies the reactor.
  private func inside(
    _ gate: borrowing InlineGate, of owner: GateOwner, since closes: UInt64, _ body: () -> Int32?
  ) -> Int32? {
    switch gate.enter(since: closes) {
    case .refused: return nil
    case .refusedAsLast:
      tellOfLast(owner)
      return nil
    case .inside:
      let result = body()
      if gate.leave() { tellOfLast(owner) }
      return result
    }
  }

  private func tellOfLast(_ owner: GateOwner) {
    switch owner {
    case .app: reactor.post(Control { [self] in $0.termination.inlineCallsHaveLeft(entry) })
    case .descriptor(let descriptor): reactor.post(Control { $0.inlineCallsHaveLeft(descriptor) })
    }
  }
}
