internal import COpportune

extension Owner {
  func statistics() -> IOStatistics {
    var classes = gone
    var list: [IOStatistics.App] = []
    for case let app? in apps {
      if let handle = app.handle { follow(handle) }
      var foreground = app.counters[0]
      foreground.add(app.atOnce.done)
      classes[0].add(foreground)
      classes[1].add(app.counters[1])
      list.append(
        IOStatistics.App(
          number: app.number, name: app.name, state: app.state, foreground: foreground, background: app.counters[1],
          inFlight: app.inFlight.count + app.atOnce.callers, held: app.held.count, openDescriptors: app.descriptors.count))
    }
    return IOStatistics(
      apps: list, storage: statistics(of: arbiters[0]), network: statistics(of: arbiters[1]), foreground: classes[0],
      background: classes[1], wakeups: opp_ring_wakeups(ring), usesUring: can.backend == .OPP_RING_URING)
  }

  private func statistics(of arbiter: Arbiter<Request>) -> IOStatistics.Device {
    IOStatistics.Device(
      foregroundQueued: arbiter.queued[0], backgroundQueued: arbiter.queued[1],
      foregroundInFlight: arbiter.inFlight[0], backgroundInFlight: arbiter.inFlight[1], cap: arbiter.cap,
      byteTokens: arbiter.bytes?.available, operationTokens: arbiter.operations?.available)
  }
}
