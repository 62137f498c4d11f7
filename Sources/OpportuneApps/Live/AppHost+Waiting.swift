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

  /// Runs a waiting task in the host's band, without retaining the host.
  @discardableResult
  func beside(_ body: @escaping @Sendable (WeakHost) async -> Void) -> Task<Void, Never> {
    Task(executorPreference: control.executor, priority: .high) { [host = WeakHost(self)] in await body(host)
    }
  }

  func run(_ body: @Sendable (isolated AppHost) -> Void) { body(self) }
}

/// A weak reference to the host.
struct WeakHost: @unchecked Sendable {  // never written again
  private(set) weak var value: AppHost?

  init(_ host: AppHost) { value = host }
}
