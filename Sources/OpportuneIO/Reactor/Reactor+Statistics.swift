internal import COpportune

extension Reactor {
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
      apps: list, gone: Array(gone), storage: statistics(of: schedulers[0]), network: statistics(of: schedulers[1]),
      foreground: classes[0], background: classes[1], wakeups: opp_ring_wakeups(ring),
      usesUring: can.backend == .OPP_RING_URING)
  }

  /// Keeps what an app that goes has done.
  func keepStatistics(of app: AppEntry) {
    let values = statistics(of: app)
    goneInAll[0].add(values.foreground)
    goneInAll[1].add(values.background)
    gone.append(values)
    if gone.count > 32 { gone.removeFirst() }
  }

  private func statistics(of app: AppEntry) -> IOStatistics.App {
    var foreground = app.counters[0]
    foreground.add(app.inline.done)
    return IOStatistics.App(
      number: app.number, name: app.name, state: app.state, foreground: foreground, background: app.counters[1],
      inFlight: app.inFlight.count + app.inline.callers, held: app.held.count,
      openDescriptors: app.descriptors.count)
  }

  private func statistics(of scheduler: IOScheduler<Request>) -> IOStatistics.Device {
    IOStatistics.Device(
      foregroundQueued: scheduler.queued[0], backgroundQueued: scheduler.queued[1],
      foregroundInFlight: scheduler.inFlight[0], backgroundInFlight: scheduler.inFlight[1], cap: scheduler.cap,
      byteTokens: scheduler.bytes?.available, operationTokens: scheduler.operations?.available)
  }
}
