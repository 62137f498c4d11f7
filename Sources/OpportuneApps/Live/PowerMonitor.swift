import Glibc
internal import OpportuneBase

/// Follows the machine's power supply. It reads the supplies when the kernel reports a change, and sleeps
/// otherwise. (R-PWR-01)
///
/// Where the kernel gives no events, only ``look()`` detects changes. ``AppHost/followPower()`` makes a
/// monitor.
public final class PowerMonitor: Sendable {
  /// Why there are no events, if so.
  package let refusal: PowerEvents.Refusal?
  private let state: State
  private let thread: DescriptorThread?

  /// The last known supply, and the function to call. Accessed with the lock held only, never by a thread of
  /// an app.
  private final class State: @unchecked Sendable {
    private let lock = Lock()
    private let power: SystemPower
    private let changed: @Sendable (PowerSupply) -> Void
    private var last: PowerSupply

    init(_ power: SystemPower, _ changed: @escaping @Sendable (PowerSupply) -> Void) {
      (self.power, self.changed, last) = (power, changed, power.read())
      changed(last)
    }

    func look() {
      lock.withLock {
        let new = power.read()
        guard new != last else { return }
        last = new
        changed(new)
      }
    }
  }

  /// Starts the monitor.
  ///
  /// - Parameters:
  ///   - power: where to read the supplies.
  ///   - changed: called with the current supply at once and after each change, one call at a time, on the
  ///     monitor's thread or that of ``look()``. Must not call ``look()``.
  package convenience init(
    _ power: SystemPower = SystemPower(), changed: @escaping @Sendable (PowerSupply) -> Void
  ) {
    self.init(power, events: PowerEvents.open, changed: changed)
  }

  /// - Parameter events: opens the socket for events; the monitor closes it.
  package init(
    _ power: SystemPower, events: () throws(PowerEvents.Refusal) -> Int32,
    changed: @escaping @Sendable (PowerSupply) -> Void
  ) {
    let state = State(power, changed)
    self.state = state
    do throws(PowerEvents.Refusal) {
      let descriptor = try events()
      // First, changes since the first look.
      let thread = DescriptorThread(descriptor, first: state.look) { isReadable in
        switch PowerEvents.drain(descriptor) {
        case .nothing: return isReadable  // after an error no more events come
        case .mayHaveChanged: state.look()
        case .ended: return false
        }
        return true
      }
      guard let thread else { throw PowerEvents.Refusal(code: errno) }
      (refusal, self.thread) = (nil, thread)
    } catch {
      (refusal, thread) = (error, nil)
    }
  }

  /// Reads the supplies now.
  public func look() { state.look() }
}

extension AppHost {
  /// Makes this host follow the machine's power supply while the monitor exists. (R-PWR-01, R-PWR-03)
  ///
  /// Keep the returned monitor: without it the host receives no changes.
  public nonisolated func followPower() -> PowerMonitor {
    followPower(SystemPower(), events: PowerEvents.open)
  }

  package nonisolated func followPower(
    _ power: SystemPower, events: () throws(PowerEvents.Refusal) -> Int32
  ) -> PowerMonitor {
    let (supplies, continuation) = AsyncStream.makeStream(of: PowerSupply.self)
    let told = Told(continuation)
    Task { [weak self] in
      // One after the other, so that the last change is posted last.
      for await supply in supplies { try? await self?.post(.power(supply)) }
    }
    return PowerMonitor(power, events: events) { told.continuation.yield($0) }
  }
}

/// Ends the stream of supplies when its monitor is released; otherwise its consumer would wait for ever.
private final class Told: Sendable {
  let continuation: AsyncStream<PowerSupply>.Continuation
  init(_ continuation: AsyncStream<PowerSupply>.Continuation) { self.continuation = continuation }
  deinit { continuation.finish() }
}
