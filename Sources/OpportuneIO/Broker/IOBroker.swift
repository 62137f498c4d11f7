internal import COpportune
import Logging
import OpportuneScheduler

/// The one place that orders I/O by class before the kernel sees it.
///
/// ```swift
/// let broker = try IOBroker()
/// let files = try broker.makeIO(for: app)             // follows the scheduler's app
/// let file = try await files.open("/etc/hosts", .readOnly)
/// ```
///
/// One thread of its own talks to the kernel; it sleeps while there is nothing to do. All members may be used
/// from any thread. Apps hold their broker; the last of them to go ends it, if ``shutdown()`` has not.
public final class IOBroker: Sendable {
  let reactor: Reactor
  private let slots = SlotPool()

  /// What it was made with.
  public var configuration: IOConfiguration { reactor.configuration }

  /// - Parameters:
  ///   - configuration: checked first.
  ///   - logger: for the few events worth a line; says nothing by default.
  /// - Throws: ``IOError``: `configuration`, `unavailable`.
  public init(
    configuration: IOConfiguration = IOConfiguration(),
    logger: Logger = Logger(label: "opportune.io", factory: { _ in SwiftLogNoOpLogHandler() })
  ) throws(IOError) {
    try configuration.validate()
    reactor = try Reactor(configuration, logger)
  }

  deinit { reactor.post(Control { $0.shutDown {} }) }

  /// What this kernel gives the broker.
  public struct Capabilities: Sendable, Hashable {
    /// io_uring; else a few threads and `poll`.
    public let usesUring: Bool
    /// Why not, where it was asked for: `ENOSYS`, `EPERM`.
    public let refusal: Int32?
    /// `SINGLE_ISSUER` and `DEFER_TASKRUN`.
    package let isSingleIssuer: Bool
    /// Whether large sends go out of the caller's buffer.
    public let sendsWithoutCopying: Bool
  }

  /// What this kernel gives, as it was found when the broker was made.
  public var capabilities: Capabilities {
    let can = reactor.capabilities
    return Capabilities(
      usesUring: can.backend == .OPP_RING_URING, refusal: can.refused == 0 ? nil : -can.refused,
      isSingleIssuer: can.single_issuer, sendsWithoutCopying: can.zero_copy)
  }

  /// I/O without an app of a scheduler; the caller sets its state.
  ///
  /// - Throws: ``IOError``: `forked`.
  package func makeApp(named name: String, state: IOState = .active) throws(IOError) -> AppIO {
    try reactor.checkFork()
    return AppIO(self, slot: slots.take(), name: name, state: state)
  }

  /// The I/O of an app of the scheduler: its class follows the app's band, and a suspended app's requests are
  /// held.
  ///
  /// - Throws: ``IOError``: `forked`.
  public func makeIO(for app: App) throws(IOError) -> AppIO { try makeIO(for: app, limits: nil) }

  /// - Parameter limits: asked on any thread, for classes that say more than the app's band; must not block.
  ///   Each change of what it answers is followed by a change of the app.
  package func makeIO(for app: App, limits: (@Sendable () -> IOLimits?)?) throws(IOError) -> AppIO {
    try reactor.checkFork()
    return AppIO(self, slot: slots.take(), app, limits: limits)
  }

  func giveBack(_ slot: Int) { slots.giveBack(slot) }

  /// What all apps have done, and what the queues look like now.
  ///
  /// - Throws: ``IOError``: `unavailable` once ``shutdown()`` has returned, whatever it left behind; never
  ///   waits for that.
  public func statistics() async throws(IOError) -> IOStatistics {
    let result: IOStatistics? = await withUnsafeContinuation { continuation in
      reactor.post(
        Control(refused: { continuation.resume(returning: nil) }) {
          continuation.resume(returning: $0.takeStatistics())
        })
    }
    guard let result else { throw IOError(.unavailable, "the broker was shut down") }
    return result
  }

  /// Terminates every app, waits until the kernel has let go of all requests, and ends the thread. May be
  /// called again.
  ///
  /// Where io_uring is not used it does not wait for the opens of FIFOs and terminals that nobody has the
  /// other end of: each keeps a thread of the pool's, and all of them the broker's own and its memory, until
  /// that comes or the process ends. What is asked of the broker meanwhile fails as after any shutdown,
  /// ``statistics()`` with `unavailable`.
  public func shutdown() async {
    await withUnsafeContinuation { continuation in
      reactor.post(Control(refused: { continuation.resume() }) { $0.shutDown { continuation.resume() } })
    }
  }
}
