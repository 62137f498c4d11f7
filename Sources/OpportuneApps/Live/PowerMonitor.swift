import Foundation
import Glibc

/// Follows what the machine runs on: looks at the supplies whenever the kernel says that one has changed, and
/// sleeps otherwise. (R-PWR-01)
///
/// Where the kernel gives no events, nothing is noticed but by ``look()``. ``AppHost/followPower()`` makes
/// one.
public final class PowerMonitor: Sendable {
  /// Why no events come, if none do.
  package let refusal: PowerEvents.Refusal?
  private let state: State
  private let thread: DescriptorThread?

  /// What is known, and whom to tell. Only looked at with the lock held, never by a thread of an app.
  private final class State: @unchecked Sendable {
    private let lock = NSLock()
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

  /// - Parameters:
  ///   - power: where the supplies are.
  ///   - changed: called with what the machine runs on, at once and after each change, one call at a time, on
  ///     the monitor's thread or that of ``look()``. Must not call ``look()``.
  package convenience init(
    _ power: SystemPower = SystemPower(), changed: @escaping @Sendable (PowerSupply) -> Void
  ) {
    self.init(power, events: PowerEvents.open, changed: changed)
  }

  /// - Parameter events: opens the socket that messages come to; the monitor closes it.
  package init(
    _ power: SystemPower, events: () throws(PowerEvents.Refusal) -> Int32,
    changed: @escaping @Sendable (PowerSupply) -> Void
  ) {
    let state = State(power, changed)
    self.state = state
    do throws(PowerEvents.Refusal) {
      let descriptor = try events()
      // First what has changed since the first look.
      let thread = DescriptorThread(descriptor, first: state.look) { isReadable in
        switch PowerEvents.drain(descriptor) {
        case .nothing: return isReadable  // else nothing more can come
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

  /// Looks now.
  public func look() { state.look() }
}

extension AppHost {
  /// Has this host follow what the machine runs on, from now until the monitor goes. (R-PWR-01, R-PWR-03)
  ///
  /// Keep the monitor: the host is told as long as it is there.
  public nonisolated func followPower() -> PowerMonitor {
    followPower(SystemPower(), events: PowerEvents.open)
  }

  package nonisolated func followPower(
    _ power: SystemPower, events: () throws(PowerEvents.Refusal) -> Int32
  ) -> PowerMonitor {
    let (supplies, continuation) = AsyncStream.makeStream(of: PowerSupply.self)
    let told = Told(continuation)
    Task { [weak self] in
      // One after the other, so that the last word is the last.
      for await supply in supplies { try? await self?.post(.power(supply)) }
    }
    return PowerMonitor(power, events: events) { told.continuation.yield($0) }
  }
}

/// Ends what is told with who tells it; who listens would wait for ever.
private final class Told: Sendable {
  let continuation: AsyncStream<PowerSupply>.Continuation
  init(_ continuation: AsyncStream<PowerSupply>.Continuation) { self.continuation = continuation }
  deinit { continuation.finish() }
}
