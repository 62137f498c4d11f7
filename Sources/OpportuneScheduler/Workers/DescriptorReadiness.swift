internal import COpportune

/// What the layer above does where a descriptor is ready.
package protocol ReadinessDelegate: AnyObject, Sendable {
  /// The calling thread has claimed its waiter, and so owns its resumption. Any thread of the foreground;
  /// must not block. A resume promises nothing: whoever is resumed tries again.
  func becameReady()
}

/// Who waits until a descriptor is ready. The delegate keeps it, and both are kept until it was claimed.
package final class ReadinessWaiter: @unchecked Sendable {
  // Sendable: a constant. Who has claimed the waiter finds the delegate alive, since that waits for it.
  private unowned(unsafe) let unretained: any ReadinessDelegate
  package init(of delegate: any ReadinessDelegate) { unretained = delegate }

  /// Retained: it may be released as soon as it is resumed.
  package var delegate: any ReadinessDelegate { unretained }
}

/// The descriptors that the parked workers of a scheduler's foreground pool wait for. What becomes ready is
/// resumed by the worker that wakes for it, and which runs it: no other thread is in between.
/// (docs/decisions/0029)
///
/// A value that retains the scheduler. Safe to use from any thread, as each member says.
package struct DescriptorReadiness: Sendable {
  private let engine: Engine
  private let pool: PoolState
  // Thread-safe; the pool keeps it.
  private nonisolated(unsafe) let raw: OpaquePointer

  /// nil where the scheduler has none: without a foreground pool, or where descriptors were short.
  init?(of engine: Engine) {
    guard let pool = engine.pools.first(where: { $0.pool == .foreground }), let raw = pool.readiness else {
      return nil
    }
    (self.engine, self.pool, self.raw) = (engine, pool, raw)
  }

  /// Whether both are of one scheduler.
  package static func === (one: DescriptorReadiness, other: DescriptorReadiness) -> Bool {
    one.raw == other.raw
  }

  // MARK: By one thread at a time for a descriptor, and not of a background class

  /// Watches a descriptor from now on. False where it cannot be watched.
  package func add(_ descriptor: Int32) -> Bool {
    guard opp_readiness_add(raw, descriptor) == 0 else {
      remove(descriptor)?.delegate.becameReady()
      return false
    }
    engine.carryOut(opp_pool_needs_leader(pool.raw), in: pool)
    return true
  }

  /// Watches it no more, before its close. The caller owns the resumption of the waiter, if there is one.
  package func remove(_ descriptor: Int32) -> ReadinessWaiter? {
    opp_readiness_remove(raw, descriptor).map(Self.waiter)
  }

  // MARK: Any thread

  package func watches(_ descriptor: Int32) -> Bool { opp_readiness_has(raw, descriptor) }

  /// Whether a waiter is armed for it now.
  package func isAwaited(_ descriptor: Int32) -> Bool { opp_readiness_is_awaited(raw, descriptor) }

  package enum Arming: Sendable {
    /// It is armed: somebody claims it.
    case armed
    /// Something has come meanwhile: try again, then arm again.
    case ready
    /// The descriptor is not watched, the scheduler has ended, or another waits for it.
    case refused
  }

  /// Arms a waiter, whom the caller keeps until it was claimed.
  ///
  /// - Parameter tag: for ``claim(tag:_:)``.
  package func arm(_ waiter: ReadinessWaiter, for descriptor: Int32, tag: UInt16) -> Arming {
    switch opp_readiness_arm(raw, descriptor, Unmanaged.passUnretained(waiter).toOpaque(), tag) {
    case .OPP_ARMING_DONE: .armed
    case .OPP_ARMING_READY: .ready
    case .OPP_ARMING_REFUSED: .refused
    }
  }

  /// Claims this waiter. False where another thread has claimed it, or it is not armed.
  package func disarm(_ waiter: ReadinessWaiter, for descriptor: Int32, tag: UInt16) -> Bool {
    opp_readiness_disarm(raw, descriptor, Unmanaged.passUnretained(waiter).toOpaque(), tag)
  }

  /// Claims all waiters with this tag; the caller of `body` owns the resumption of each.
  package func claim(tag: UInt16, _ body: (ReadinessWaiter) -> Void) {
    var cursor: UInt32 = 0
    while let waiter = opp_readiness_claim_tagged(raw, tag, &cursor) { body(Self.waiter(waiter)) }
  }

  /// The scheduler has ended: nobody harvests any more. All waiters try again, and wait elsewhere.
  func close() {
    opp_readiness_close(raw)
    var cursor: UInt32 = 0
    while let waiter = opp_readiness_claim_any(raw, &cursor) { Self.waiter(waiter).delegate.becameReady() }
  }

  private static func waiter(_ pointer: UnsafeMutableRawPointer) -> ReadinessWaiter {
    Unmanaged<ReadinessWaiter>.fromOpaque(pointer).takeUnretainedValue()
  }
}

extension App {
  /// The descriptors that the app's scheduler watches; nil where it watches none.
  package var readiness: DescriptorReadiness? { DescriptorReadiness(of: core.engine) }
}
