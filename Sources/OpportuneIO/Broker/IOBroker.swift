internal import COpportune
import Logging
import OpportuneScheduler

/// The broker: it orders all I/O by class before the kernel sees it.
///
/// ```swift
/// let broker = try IOBroker()
/// let files = try broker.makeIO(for: app)             // follows the scheduler's app
/// let file = try await files.open("/etc/hosts", .readOnly)
/// ```
///
/// One thread of its own, the reactor, talks to the kernel; it sleeps while there is nothing to do. All
/// members may be used from any thread. Apps retain their broker. It ends with ``shutdown()``, or when its
/// last app is released.
public final class IOBroker: Sendable {
  let reactor: Reactor
  private let slots = SlotPool()

  /// The settings with which the broker was made.
  public var configuration: IOConfiguration { reactor.configuration }

  /// Makes a broker and starts its thread.
  ///
  /// - Parameters:
  ///   - configuration: validated first.
  ///   - logger: receives the few events worth a line; logs nothing by default.
  /// - Throws: ``IOError``: `configuration`, `unavailable`.
  public init(
    configuration: IOConfiguration = IOConfiguration(),
    logger: Logger = Logger(label: "opportune.io", factory: { _ in SwiftLogNoOpLogHandler() })
  ) throws(IOError) {
    try configuration.validate()
    reactor = try Reactor(configuration, logger)
  }

  deinit { reactor.post(Control { $0.shutDown {} }) }

  /// What this kernel offers to the broker.
  public struct Capabilities: Sendable, Hashable {
    /// Whether io_uring is used; otherwise a few threads and `poll`.
    public let usesUring: Bool
    /// The kernel's error, if io_uring was asked for and refused: `ENOSYS`, `EPERM`.
    public let refusal: Int32?
    /// Whether the ring uses `SINGLE_ISSUER` and `DEFER_TASKRUN`.
    package let isSingleIssuer: Bool
    /// Whether large sends use the caller's buffer without a copy.
    public let sendsWithoutCopying: Bool
  }

  /// What this kernel offers, as found when the broker was made.
  public var capabilities: Capabilities {
    let can = reactor.capabilities
    return Capabilities(
      usesUring: can.backend == .OPP_RING_URING, refusal: can.refused == 0 ? nil : -can.refused,
      isSingleIssuer: can.single_issuer, sendsWithoutCopying: can.zero_copy)
  }

  /// Makes the I/O of an app without a scheduler; the caller sets its state.
  ///
  /// - Throws: ``IOError``: `unavailable`.
  package func makeApp(named name: String, state: IOState = .active) throws(IOError) -> AppIO {
    try checkRuns()
    return AppIO(self, slot: slots.take(), name: name, state: state)
  }

  /// Makes the I/O of a scheduler's app: its class follows the app's band, and the requests of a suspended
  /// app are held.
  ///
  /// - Throws: ``IOError``: `unavailable` after ``shutdown()``.
  public func makeIO(for app: App) throws(IOError) -> AppIO { try makeIO(for: app, limits: nil) }

  /// - Parameter limits: returns limits by device, beyond those of the app's band. Called on any thread; must
  ///   not block. Each change of its result must be followed by a notification of the app's observers.
  package func makeIO(for app: App, limits: (@Sendable () -> IOLimits?)?) throws(IOError) -> AppIO {
    try checkRuns()
    return AppIO(self, slot: slots.take(), app, limits: limits)
  }

  private func checkRuns() throws(IOError) {
    if reactor.hasEnded { throw IOError(.unavailable, "the broker was shut down") }
  }

  func giveBack(_ slot: Int) { slots.giveBack(slot) }

  /// Counters of all apps, and the state of the queues at the time of the call.
  ///
  /// - Throws: ``IOError``: `unavailable` once ``shutdown()`` has returned, even if threads remain; never
  ///   waits for them.
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

  /// Terminates every app, waits until the kernel has ended all requests, and ends the thread. May be called
  /// again.
  ///
  /// Without io_uring it does not wait for opens of FIFOs and terminals whose other end is missing. Each such
  /// open keeps a thread of the pool until the other end is opened or the process ends, and together they
  /// keep the broker's own thread and its memory. Later calls on the broker fail as after any shutdown:
  /// ``statistics()`` with `unavailable`.
  public func shutdown() async {
    await withUnsafeContinuation { continuation in
      reactor.post(Control(refused: { continuation.resume() }) { $0.shutDown { continuation.resume() } })
    }
  }
}
