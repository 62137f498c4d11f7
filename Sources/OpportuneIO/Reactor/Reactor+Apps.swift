internal import COpportune
import Logging
import SystemPackage

/// Apps, as the reactor thread sees them: their state, their end.
extension Reactor {
  func add(slot: Int, name: String, state: IOState, _ inline: InlineCalls, _ handle: AppIO?) {
    while apps.count <= slot { apps.append(nil) }
    lastApp += 1
    let app = AppEntry(slot: slot, number: lastApp, name: name, state: state, inline)
    app.handle = handle
    apps[slot] = app
    for device in schedulers.indices { schedulers[device].addApp(slot, state: state) }
    if refuses { terminate(app) {} }
  }

  /// The handle is gone, so nothing of it is queued, in flight or held.
  func forget(slot: Int) {
    guard apps.indices.contains(slot), let app = apps[slot] else { return }
    keepStatistics(of: app)
    for watch in app.watches { watch.stop(at: self) }
    for device in schedulers.indices { _ = schedulers[device].removeApp(slot) }
    apps[slot] = nil
  }

  /// Makes of an app what it is now, and returns it: the one way in which its state gets here. Done where a change is
  /// told of, and wherever the state decides what becomes of a request, which is often before that.
  ///
  /// Why none is missed, on any processor. Each look is an acquiring load of the app's one word, by this thread alone, so
  /// no look sees less than one before it. What an app's suspension came before, such as bytes that were written after
  /// it, reaches us through the kernel, whose completion we see before we look: so we see the suspension, and hold what
  /// completed. And each change is followed by a message, which is posted with release after it and fetched with
  /// acquire: the look on its arrival sees that change or a later one. So the look of the last message sees the last
  /// state, and what was held by then is answered if that is a running one. Who holds and who answers are this thread,
  /// so neither has to look again: the one store-load pair is that of posting and sleeping, in opp_ring_post().
  @discardableResult
  func follow(_ handle: AppIO) -> AppEntry? {
    guard let app = owned(handle) else { return nil }
    let view = handle.view
    guard view.generation != app.generation || view.limits != app.limits else { return app }
    app.generation = view.generation
    let isSuspendedStill = view.state == .suspended && app.state == .suspended
    if view.state != app.state || view.limits != app.limits {
      app.limits = view.limits
      setState(view.state, of: app)
    }
    if isSuspendedStill {
      // It may have been resumed in between, because of a report, and knows nothing of what was reported: so once more.
      for watch in app.watches { watch.arm(at: self) }
      reportHeld(app)
    }
    return app
  }

  /// Says that something waits for the app's resumption, where that is so.
  func reportHeld(_ app: AppEntry) {
    guard configuration.heldCompletions == .report, !app.held.isEmpty, !app.isTerminated else { return }
    configuration.onHeldCompletion?(app.name)
  }

  private func setState(_ state: IOState, of app: AppEntry) {
    guard !app.isTerminated else { return }
    if app.state == .suspended, state != .suspended { app.resumedAt = now }
    app.state = state
    if !opensAwake.isEmpty { mayWakeOpens = true }
    for device in Device.queued { schedulers[device.rawValue].setState(app.state(on: device), of: app.slot) }
    for descriptor in app.descriptors.keys { moderate(descriptor, of: app) }
    if state == .suspended {
      for watch in app.watches { watch.arm(at: self) }
    } else {
      for watch in app.watches { watch.disarm(at: self) }
      answerHeld(app)
      let parked = app.parked
      app.parked = []
      for request in parked { enqueue(request, at: request.ticket) }
    }
  }

  private func answerHeld(_ app: AppEntry) {
    let held = app.held
    app.held = []
    for request in held { answer(request) }
  }

  // MARK: Descriptors

  /// From now on the descriptor is the app's, and is closed with it. Where that has ended already, it is closed now.
  func adopt(_ descriptor: Int32, isSocket: Bool, by app: AppEntry) {
    guard !app.isTerminated else { return close(descriptor, ioClass(of: app, .network)) {} }
    app.descriptors[descriptor] = OwnedDescriptor(descriptor, isSocket: isSocket)
    moderate(descriptor, of: app)
  }

  /// Makes a socket as its app's state has it.
  func moderate(_ descriptor: Int32, of app: AppEntry) {
    guard var owned = app.descriptors[descriptor], owned.isSocket else { return }
    guard owned.isStill(descriptor) else {
      app.descriptors[descriptor] = nil
      return
    }
    let restriction: IOConfiguration.SocketRestriction =
      switch app.state(on: .network) {
      case .active: .none
      case .inactive: configuration.network.limitsInactive ? configuration.backgroundSockets : .none
      case .background: configuration.backgroundSockets
      case .suspended: configuration.suspendedSockets
      }
    let isKeptAlive = app.watches.contains { $0.watches(descriptor) }
    do throws(Errno) {
      try owned.moderation.apply(restriction, to: descriptor, isKeptAlive: isKeptAlive)
    } catch {
      if !owned.hasWarned { warn(of: descriptor, app, drops: restriction.dropsIncoming, error) }
      owned.hasWarned = true
    }
    app.descriptors[descriptor] = owned
  }

  private func warn(of socket: Int32, _ app: AppEntry, drops: Bool, _ error: Errno) {
    logger.warning(
      drops
        ? "a socket keeps its packets, though its app's state drops them: its own filter stays"
        : "a socket's own packet filter cannot be restored",
      metadata: ["app": "\(app.name)", "socket": "\(socket)", "reason": "\(error)"])
  }

  // MARK: The end

  /// Ends an app: what is queued or only brings something in ends now; writes that the kernel has go on, and hold their
  /// buffers (R-FTS-07). Then its descriptors are closed, and `body` is called.
  func terminate(_ app: AppEntry, then body: @escaping () -> Void) {
    app.onQuiet.append(body)
    if !app.isTerminated {
      app.isTerminated = true
      if app.inline.end() {
        app.awaitsCallers = true
        inFlight += 1  // so that this thread does not end before
      }
      for watch in app.watches { watch.stop(at: self) }
      for device in schedulers.indices {
        for request in schedulers[device].removeApp(app.slot) {
          queuedOnDescriptors.remove(request)
          end(request, .failed(.terminated))
        }
      }
      for request in app.parked { end(request, .failed(.terminated)) }
      app.parked = []
      for request in app.inFlight where !request.isDetached {
        if request.isDroppedAtTermination {
          end(request, early: .terminated)
        } else {
          request.reason = .terminated
          letGo(request)
        }
      }
      // Whoever waits for a descriptor gets none any more.
      for request in app.held where request.opensDescriptor { request.outcome = .failed(.terminated) }
      answerHeld(app)
    }
    becameQuieter(app)
  }

  /// Of those who did something at once when the app ended.
  func lastHasLeft(_ app: AppEntry) {
    guard app.awaitsCallers else { return }
    app.awaitsCallers = false
    inFlight -= 1
    becameQuieter(app)
  }

  /// A zero-copy send that the kernel has accepted, of an app that ends or on a descriptor that is to be closed: its buffer
  /// stays until the peer has it all, which may be never, so nobody waits for that.
  func letGo(_ request: Request) {
    guard let moved = request.firstResult, !request.isDetached, let app = owned(request.app),
      app.isTerminated || closing[request.op.fd] != nil
    else { return }
    request.isDetached = true
    let isWhole = Int(moved) == request.total - request.done
    deliver(request, isWhole ? .value(request.total) : .failed(request.reason ?? .terminated))
  }

  /// After each request that ends.
  func becameQuieter(_ app: AppEntry) {
    guard app.isTerminated, !app.awaitsCallers, !app.inFlight.contains(where: \.isFinishedAtTermination) else { return }
    closeDescriptors(of: app)
    guard app.closes == 0, app.lastCloses == 0, !app.inFlight.contains(where: \.holdsUpTheEnd) else { return }
    let waiters = app.onQuiet
    app.onQuiet = []
    for body in waiters { body() }
  }

  /// Each when nothing is in flight on it any more: a read that hangs keeps its own open, and no other.
  private func closeDescriptors(of app: AppEntry) {
    let descriptors = app.descriptors
    app.descriptors = [:]
    for (descriptor, owned) in descriptors where owned.isStill(descriptor) {
      app.lastCloses += 1
      close(descriptor, of: app) { reactor in
        reactor.close(descriptor, reactor.ioClass(of: app, .network)) {
          app.lastCloses -= 1
          reactor.becameQuieter(app)
        }
      }
    }
  }

  /// Closes a descriptor of ours.
  func close(_ descriptor: Int32, _ ioClass: IOClass, then body: @escaping () -> Void) {
    var op = opp_ring_op()
    op.code = UInt8(opp_ring_code.OPP_RING_CLOSE.rawValue)
    op.fd = descriptor
    op.tag = UInt64(UInt(bitPattern: Unmanaged<Message>.passRetained(Closing(ioClass, body)).toOpaque()))
    prepareClose(op, ioClass)
  }
}

/// What the tag of a close of ours names.
final class Closing: Message {
  let ioClass: IOClass
  let body: () -> Void
  init(_ ioClass: IOClass, _ body: @escaping () -> Void) {
    self.ioClass = ioClass
    self.body = body
  }
}
