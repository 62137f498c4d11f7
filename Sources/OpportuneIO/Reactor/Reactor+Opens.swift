internal import COpportune
import Glibc

/// Opens. One of a FIFO waits until somebody has its other end, one of a terminal for its line: those take no place of the
/// device. Each takes a thread of the kernel's or the pool's meanwhile, so there are few at once of each class, and what more
/// there are wait for those, not others for them.
extension Reactor {
  /// Of each class, at once.
  static let waitingOpensLimit = 8

  /// The kernel's answer about what is to be opened; the open goes on.
  func looked(_ request: Request, _ result: Int32) {
    request.looks = .done
    if result >= 0 { request.learn(kind: request.lookedUpKind) }
    guard request.isOfStream || request.reason != nil, let grant = request.grant else { return again(request) }
    request.grant = nil
    schedulers[request.device.rawValue].abandon(grant)
    if let reason = request.reason { return end(request, .failed(reason)) }
    enqueue(request, at: grant.ticket)  // without a place
  }

  /// Whether an open that waits may go to the kernel; else it is kept until one of its class has ended.
  func takesThread(_ request: Request, _ ioClass: IOClass) -> Bool {
    guard request.code == .OPP_RING_OPEN, request.isOfStream else { return true }
    opensAwake.removeAll { $0 === request }
    guard waitingOpens[ioClass.index] < Self.waitingOpensLimit else {
      owned(request.app)?.park(request)
      return false
    }
    waitingOpens[ioClass.index] += 1
    request.openClass = ioClass
    return true
  }

  /// After each request that the kernel has let go of.
  func givesThreadBack(_ request: Request) {
    guard let ioClass = request.openClass else { return }
    request.openClass = nil
    waitingOpens[ioClass.index] -= 1
    mayWakeOpens = true
  }

  /// Has as many of those that are kept go on as there are threads: the oldest. Looked at anew whenever a thread is free, or one
  /// that was woken has ended or its app has changed, so that none that makes no use of its turn leaves the others asleep.
  func wakeOpens() {
    guard mayWakeOpens else { return }
    mayWakeOpens = false
    for ioClass in IOClass.allCases {
      let awake = opensAwake.count { mayGo($0, as: ioClass) }
      let free = Self.waitingOpensLimit - waitingOpens[ioClass.index] - awake
      guard free > 0 else { continue }
      let kept = apps.compactMap(\.self).flatMap(\.parked)
      let waiting = kept.filter { $0.code == .OPP_RING_OPEN && mayGo($0, as: ioClass) }
      for next in waiting.sorted(by: { $0.number < $1.number }).prefix(free) {
        owned(next.app)?.parked.removeAll { $0 === next }
        opensAwake.append(next)
        enqueue(next, at: next.ticket)
      }
    }
  }

  /// Whether the scheduler has the open go in a class; a suspended app's waits for its resumption.
  private func mayGo(_ request: Request, as ioClass: IOClass) -> Bool {
    guard let app = owned(request.app), app.state != .suspended else { return false }
    let present = self.ioClass(of: app, .storage)
    return ioClass == (policy(of: .storage).queuedRequests == .stay ? request.ticket?.origin ?? present : present)
  }

  /// Of one that has ended, in the queue or out of it.
  func isAwakeNoMore(_ request: Request) {
    guard request.isOfStream, let index = opensAwake.firstIndex(where: { $0 === request }) else { return }
    opensAwake.remove(at: index)
    mayWakeOpens = true
  }
}

extension Request {
  /// What is known of the file that is to be opened.
  enum Look { case none, needed, sent, done }

  /// Looks whether the file is one whose open may wait, where that takes no waiting; else the kernel is asked in the request's
  /// turn. On the caller's thread.
  func lookAtPath() {
    guard code == .OPP_RING_OPEN else { return }
    let kind = opp_ring_look(&op)
    if kind >= 0 { return learn(kind: kind) }
    if kind == -EAGAIN { looks = .needed }  // else there is none, or the open will say what is wrong
  }

  func learn(kind: Int32) {
    let waitsForOthers = [S_IFIFO, S_IFCHR].contains(mode_t(kind & 0xffff) & S_IFMT)
    isOfStream = waitsForOthers && op.flags & UInt32(O_NONBLOCK) == 0
    // On a thread of the kernel's from the start.
    op.second = isOfStream || kind & OPP_FILE_ON_NO_DEVICE != 0 ? 1 : 0
  }

  /// The request that asks what the file is.
  func look() -> opp_ring_op {
    looks = .sent
    var op = op
    op.code = UInt8(opp_ring_code.OPP_RING_STAT.rawValue)
    op.flags = 0
    op.length = FileStatus.wanted
    scratchOfLook = scratchOfLook ?? allocate(FileStatus.count)
    op.second = UInt64(UInt(bitPattern: scratchOfLook))
    return op
  }

  var lookedUpKind: Int32 { scratchOfLook.map { FileStatus.kind($0) } ?? 0 }
}
