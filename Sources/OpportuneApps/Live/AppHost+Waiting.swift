import OpportuneScheduler

/// Waiting without retaining the host.
extension AppHost {
  /// Sleeps in the host's band, then continues on its strand, unless the host was released meanwhile.
  @discardableResult
  func later(
    at deadline: AppClock.Instant, _ body: @escaping @Sendable (isolated AppHost) -> Void
  ) -> Task<Void, Never> {
    let clock = control.clock
    return beside { host in
      guard (try? await clock.sleep(until: deadline, tolerance: .milliseconds(1))) != nil else { return }
      await host.value?.run(body)
    }
  }

  /// Continues on the host's strand after a time of the host, real or virtual, unless the host was released
  /// meanwhile.
  func later(after span: Duration, _ body: @escaping @Sendable (isolated AppHost) -> Void) {
    guard virtual == nil else {
      virtual?.agenda.add(body, at: system.now + span)
      return
    }
    later(at: control.clock.now.advanced(by: span), body)
  }

  /// Continues on the host's strand after the effects that are being carried out.
  func soon(_ body: @escaping @Sendable (isolated AppHost) -> Void) {
    virtual?.followUps += 1
    Task {
      self.run(body)
      self.followedUp()
    }
  }

  /// Runs a waiting task in the host's band, without retaining the host.
  @discardableResult
  func beside(_ body: @escaping @Sendable (WeakHost) async -> Void) -> Task<Void, Never> {
    virtual?.followUps += 1
    return Task(executorPreference: control.executor, priority: .high) {
      [host = WeakHost(self), isVirtual = virtual != nil] in
      await body(host)
      if isVirtual { await host.value?.followedUp() }
    }
  }

  private func followedUp() {
    virtual?.followUps -= 1
    wakeIfSettled()
  }

  func run(_ body: @Sendable (isolated AppHost) -> Void) { body(self) }
}

/// A weak reference to the host.
struct WeakHost: @unchecked Sendable {  // never written again
  private(set) weak var value: AppHost?

  init(_ host: AppHost) { value = host }
}
