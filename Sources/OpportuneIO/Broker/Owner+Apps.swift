internal import COpportune

/// Apps, as the owner thread sees them: their state, their end.
extension Owner {
  func add(slot: Int, name: String, state: IOState, _ handle: AppIO?) {
    while apps.count <= slot { apps.append(nil) }
    let app = OwnedApp(slot: slot, name: name, state: state)
    app.handle = handle
    apps[slot] = app
    for device in arbiters.indices { arbiters[device].addApp(slot, state: state) }
  }

  /// The handle is gone, so nothing of it is queued, in flight or held.
  func forget(slot: Int) {
    guard apps.indices.contains(slot), let app = apps[slot] else { return }
    for watch in app.watches { watch.stop(at: self) }
    for device in arbiters.indices { _ = arbiters[device].removeApp(slot) }
    apps[slot] = nil
  }

  func setState(_ state: IOState, of app: OwnedApp) {
    guard app.state != state, !app.isTerminated else { return }
    app.state = state
    for device in arbiters.indices { arbiters[device].setState(state, of: app.slot) }
    for descriptor in app.descriptors.keys { moderate(descriptor, of: app) }
    if state == .suspended {
      for watch in app.watches { watch.arm(at: self) }
    } else {
      for watch in app.watches { watch.disarm(at: self) }
      let held = app.held
      app.held = []
      for request in held { answer(request) }
    }
  }

  // MARK: Descriptors

  func adopt(_ descriptor: Int32, isSocket: Bool, by app: OwnedApp) {
    app.descriptors[descriptor] = OwnedDescriptor(isSocket: isSocket)
    moderate(descriptor, of: app)
  }

  /// Makes a socket as its app's state has it.
  func moderate(_ descriptor: Int32, of app: OwnedApp) {
    guard var owned = app.descriptors[descriptor], owned.isSocket else { return }
    let restriction: IOConfiguration.SocketRestriction =
      switch app.state {
      case .active: .none
      case .inactive: configuration.network.limitsInactive ? configuration.backgroundSockets : .none
      case .background: configuration.backgroundSockets
      case .suspended: configuration.suspendedSockets
      }
    let isKeptAlive = app.watches.contains { $0.watches(descriptor) }
    owned.moderation.apply(restriction, to: descriptor, isKeptAlive: isKeptAlive)
    app.descriptors[descriptor] = owned
  }

  // MARK: The end

  /// Ends an app: what is queued or only brings something in ends now; writes that the kernel has go on, and hold their
  /// buffers (R-FTS-07). Then its descriptors are closed, and `body` is called.
  func terminate(_ app: OwnedApp, then body: @escaping () -> Void) {
    app.onQuiet.append(body)
    if !app.isTerminated {
      app.isTerminated = true
      for watch in app.watches { watch.stop(at: self) }
      for device in arbiters.indices {
        for request in arbiters[device].removeApp(app.slot) { end(request, early: .terminated) }
      }
      for request in app.inFlight where !request.isDetached {
        if request.isDroppedAtTermination {
          end(request, early: .terminated)
        } else {
          request.reason = .terminated
        }
      }
      let held = app.held
      app.held = []
      for request in held { answer(request) }
    }
    becameQuieter(app)
  }

  /// After each request that ends.
  func becameQuieter(_ app: OwnedApp) {
    guard app.isTerminated, app.inFlight.isEmpty else { return }
    for descriptor in app.descriptors.keys { close(descriptor) }
    app.descriptors = [:]
    let waiters = app.onQuiet
    app.onQuiet = []
    for body in waiters { body() }
  }

  func close(_ descriptor: Int32) {
    var op = opp_ring_op()
    op.code = UInt8(opp_ring_code.OPP_RING_CLOSE.rawValue)
    op.fd = descriptor
    prepare(op)
  }
}
