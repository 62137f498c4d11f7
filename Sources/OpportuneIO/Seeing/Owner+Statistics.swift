internal import COpportune

extension Owner {
  func statistics() -> IOStatistics {
    var classes = goneInAll
    var list: [IOStatistics.App] = []
    for case let app? in apps {
      if let handle = app.handle { follow(handle) }
      let values = statistics(of: app)
      classes[0].add(values.foreground)
      classes[1].add(values.background)
      list.append(values)
    }
    return IOStatistics(
      apps: list, gone: Array(gone), storage: statistics(of: arbiters[0]), network: statistics(of: arbiters[1]),
      foreground: classes[0], background: classes[1], wakeups: opp_ring_wakeups(ring),
      usesUring: can.backend == .OPP_RING_URING)
  }

  /// Keeps what an app that goes has done.
  func keepStatistics(of app: OwnedApp) {
    let values = statistics(of: app)
    goneInAll[0].add(values.foreground)
    goneInAll[1].add(values.background)
    gone.append(values)
    if gone.count > 32 { gone.removeFirst() }
  }

  private func statistics(of app: OwnedApp) -> IOStatistics.App {
    var foreground = app.counters[0]
    foreground.add(app.atOnce.done)
    return IOStatistics.App(
      number: app.number, name: app.name, state: app.state, foreground: foreground, background: app.counters[1],
      inFlight: app.inFlight.count + app.atOnce.callers, held: app.held.count,
      openDescriptors: app.descriptors.count)
  }

  private func statistics(of arbiter: Arbiter<Request>) -> IOStatistics.Device {
    IOStatistics.Device(
      foregroundQueued: arbiter.queued[0], backgroundQueued: arbiter.queued[1],
      foregroundInFlight: arbiter.inFlight[0], backgroundInFlight: arbiter.inFlight[1], cap: arbiter.cap,
      byteTokens: arbiter.bytes?.available, operationTokens: arbiter.operations?.available)
  }
}
