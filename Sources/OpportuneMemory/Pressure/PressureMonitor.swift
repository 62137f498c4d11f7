internal import COpportune
import Glibc
internal import OpportuneBase
import Synchronization

/// The thread that watches memory while somebody listens: asleep until the kernel's stall alarm or the
/// broker's notifier. It reads again each second only while the level is above normal, or where the kernel
/// has no alarm; and else, of the machine's memory, which fills without a sound, now and then.
final class PressureMonitor: @unchecked Sendable {
  private final class Listener {
    let continuation: AsyncStream<PressureLevel>.Continuation
    init(_ continuation: AsyncStream<PressureLevel>.Continuation) { self.continuation = continuation }
  }

  private let core: BrokerCore
  // The C object is thread-safe: listeners on their way to the thread.
  private let inbox: OpaquePointer
  private let isStarted = Atomic<Bool>(false)
  private let isStopped = Atomic<Bool>(false)
  // The thread's own.
  private var listeners: [Listener] = []
  private var gauge: PressureGauge

  init(_ core: BrokerCore) throws(MemoryError) {
    guard let inbox = opp_inbox_create() else { throw .refused("no monitor of memory", ENOMEM) }
    self.core = core
    self.inbox = inbox
    gauge = core.configuration.gauge
  }

  deinit { opp_inbox_destroy(inbox) { Unmanaged<Listener>.fromOpaque($0).release() } }

  // MARK: Any thread

  func levels() throws(MemoryError) -> AsyncStream<PressureLevel> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: PressureLevel.self, bufferingPolicy: .bufferingNewest(1))
    let listener = Unmanaged.passRetained(Listener(continuation))
    guard opp_inbox_push(inbox, listener.toOpaque()) == 0 else {
      listener.release()
      throw .refused("nobody can listen to memory levels", ENOMEM)
    }
    // relaxed: it only tells who starts the thread; the listener is published by the inbox.
    if isStarted.compareExchange(expected: false, desired: true, ordering: .relaxed).exchanged {
      let result = opp_thread_start(
        "opp-memory", 256 << 10,
        { Unmanaged<PressureMonitor>.fromOpaque($0.unsafelyUnwrapped).takeRetainedValue().run() },
        Unmanaged.passRetained(self).toOpaque())
      guard result == 0 else {
        Unmanaged.passUnretained(self).release()
        isStarted.store(false, ordering: .relaxed)
        throw .refused("no thread watches memory", -result)
      }
    }
    core.ring()
    return stream
  }

  /// The streams end.
  func stop() {
    // relaxed: it publishes nothing, and the notifier, rung after it, makes the thread look.
    isStopped.store(true, ordering: .relaxed)
    core.ring()
  }

  // MARK: The thread

  /// When tasks have stalled for memory for 150 ms of 2 s. Only the machine's: where a cgroup's memory is
  /// short its tasks stall, and the machine's file counts them too. A descriptor, or an error number below 0.
  static func openAlarm() -> Int32 { opp_watch_stall("/proc/pressure/memory", 150_000, 2_000_000) }

  private func run() {
    let alarm = Self.openAlarm()
    defer { if alarm >= 0 { opp_watch_close(alarm) } }
    // It may as well look when something else wakes the CPU. Where that is refused, it looks by itself.
    _ = opp_thread_set_timer_slack(250_000_000)
    // relaxed: see stop().
    while !isStopped.load(ordering: .relaxed) {
      let pause = look(hasAlarm: alarm >= 0)
      _ = opp_watch_wait(core.notifier, max(alarm, -1), pause)
    }
    fetch()
    for listener in listeners { listener.continuation.finish() }
    listeners = []
  }

  private func fetch() {
    var fresh: [Listener] = []
    withUnsafeMutablePointer(to: &fresh) { list in
      opp_inbox_fetch(
        inbox,
        { listener, context in
          let listener = Unmanaged<Listener>.fromOpaque(listener).takeRetainedValue()
          context?.assumingMemoryBound(to: [Listener].self).pointee.append(listener)
        }, list)
    }
    for listener in fresh {
      listener.continuation.yield(gauge.level)
      listeners.append(listener)
    }
  }

  /// Returns for how many milliseconds nobody need look unless rung or alarmed; -1: for ever.
  private func look(hasAlarm: Bool) -> Int32 {
    let growth = core.use.readGrowth()
    let ledger = core.total()
    let readings = core.readings(of: ledger)
    let change = readings.shortest.flatMap { gauge.update($0) }
    if let change {
      listeners.removeAll {
        if case .terminated = $0.continuation.yield(change) { true } else { false }
      }
    }
    fetch()
    // What was given back shows at the next look.
    if gauge.level == .critical, core.relieve(gauge).purged > 0 { core.ring() }
    let next = NextLook(
      gauge, readings, ledger, ofMachine: core.configuration.limit == .machine, hasAlarm: hasAlarm)
    if core.use.look(at: growth.saturatingAdd(next.bytes)) { core.ring() }
    return next.milliseconds
  }
}
