internal import COpportune
import Glibc
internal import OpportuneBase
import Synchronization

/// The thread that watches memory while there are listeners. It sleeps until the kernel's stall alarm or the
/// broker's notifier. It reads each second only while the level is above normal, or where the kernel has no
/// alarm. Otherwise it reads the machine's memory at long intervals, since that may fill without any alarm.
final class PressureMonitor: @unchecked Sendable {
  private final class Listener {
    let continuation: AsyncStream<PressureLevel>.Continuation
    init(_ continuation: AsyncStream<PressureLevel>.Continuation) { self.continuation = continuation }
  }

  private let core: BrokerCore
  // The C object is thread-safe. It passes listeners to the thread.
  private let inbox: OpaquePointer
  private let isStarted = Atomic<Bool>(false)
  private let isStopped = Atomic<Bool>(false)
  // The thread's own state.
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
    // relaxed: it only decides which thread starts the monitor; the inbox publishes the listener.
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
    core.notify()
    return stream
  }

  /// Ends the streams and the thread.
  func stop() {
    // relaxed: it publishes nothing; the notifier, written after it, makes the thread read it.
    isStopped.store(true, ordering: .relaxed)
    core.notify()
  }

  // MARK: The thread

  /// Opens the kernel's alarm for 150 ms of memory stalls within 2 s. The machine's alarm suffices: if a
  /// cgroup is short of memory its tasks stall, and the machine's file counts them too. Returns a descriptor,
  /// or a negative error number.
  static func openAlarm() -> Int32 { opp_watch_stall("/proc/pressure/memory", 150_000, 2_000_000) }

  private func run() {
    let alarm = Self.openAlarm()
    defer { if alarm >= 0 { opp_watch_close(alarm) } }
    // A large timer slack: looks may be combined with other wake-ups of the CPU. Without it the thread still
    // works.
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

  /// Looks once. Returns for how many milliseconds no further look is needed unless woken; -1 is for ever.
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
    // The next look shows what was released.
    if gauge.level == .critical, core.relieve(gauge).purged > 0 { core.notify() }
    let next = NextLook(
      gauge, readings, ledger, ofMachine: core.configuration.limit == .machine, hasAlarm: hasAlarm)
    if core.use.look(at: growth.saturatingAdd(next.bytes)) { core.notify() }
    return next.milliseconds
  }
}
