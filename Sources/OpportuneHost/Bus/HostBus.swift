internal import COpportuneHost
import Foundation
internal import Glibc
internal import OpportuneApps
internal import OpportuneBase

/// `org.opportune.Host1` on D-Bus: the requests of the socket as methods, and signals of what changes.
///
/// One thread talks with the bus, and sleeps until the bus or the host has something. A bus that is not
/// there, or goes, costs the host nothing but this interface. Only the host's own user is served.
package final class HostBus: @unchecked Sendable {
  // Sendable: what changes is touched under the lock alone.
  package static let name = "org.opportune.Host1"
  static let path = "/org/opportune/Host1"

  /// Which bus, as a user chooses.
  package enum Choice: String, Sendable, CaseIterable {
    /// The system's as root, else the user's own.
    case auto
    case system
    case session
    case none

    var isSystem: Bool { self == .system || self == .auto && geteuid() == 0 }
    var title: String { isSystem ? "the system bus" : "the session bus" }
  }

  /// How long a call of the bus itself may take.
  private static let patience: Duration = .seconds(5)
  /// A bus that was lost is looked for so often, each time after twice as long, from a second on.
  private static let longestSearch = 10
  /// What is told by signals.
  private enum News {
    case change(AppChange)
    case notified(FiredNotification)
  }

  /// News that wait for the bus; of more the oldest are dropped.
  private static let mostPending = 4096

  private let choice: Choice
  private let log: @Sendable (String) -> Void
  private let host: @Sendable () -> ProcessHost?
  /// Told of changes, and of the end.
  private let event: Int32
  private let lock = Lock()
  private var pending: [News] = []
  private var isServing = false
  private var isOver = false

  /// - Parameters:
  ///   - log: called on any thread with what people should know.
  ///   - host: asked at each call; `nil` while it starts or ends.
  /// - Returns: `nil` where there is to be no bus.
  /// - Throws: ``ProcessHostError``: `system`.
  package init?(
    _ choice: Choice, log: @escaping @Sendable (String) -> Void,
    host: @escaping @Sendable () -> ProcessHost?
  ) throws(ProcessHostError) {
    if choice == .none { return nil }
    (self.choice, self.log, self.host) = (choice, log, host)
    event = opp_host_event_open()
    if event < 0 { throw ProcessHostError(.system("the thread of the bus cannot be woken", -event)) }
  }

  deinit { close(event) }

  /// Connects, on a thread of its own.
  package func start() { Thread.detachNewThread { self.run() } }

  /// Leaves the bus, soon.
  package func stop() {
    lock.withLock { isOver = true }
    opp_host_event_tell(event)
  }

  /// Takes changes that are to be told of. Any thread; never blocks.
  package func tell(_ changes: [AppChange]) { tell(changes.map(News.change)) }

  /// Takes a notification that has fired, the same.
  package func tell(_ fired: FiredNotification) { tell([.notified(fired)]) }

  private func tell(_ news: [News]) {
    lock.withLock {
      guard isServing else { return }
      pending += news
      if pending.count > Self.mostPending { pending.removeFirst(pending.count - Self.mostPending) }
    }
    opp_host_event_tell(event)
  }

  /// What a look at the bus finds.
  package enum Look: Sendable, Hashable {
    case answers(String)
    case noLibrary
    /// The bus, and why it does not answer.
    case noBus(String, String)
  }

  /// Connects for a moment. Blocks.
  package static func look(_ choice: Choice = .auto) -> Look {
    guard opp_bus_has_library() else { return .noLibrary }
    var opened: OpaquePointer?
    let status = opp_bus_open(choice.isSystem, UInt64(patience / .microseconds(1)), &opened)
    guard status >= 0, let opened else { return .noBus(choice.title, reason(-status)) }
    opp_bus_close(opened)
    return .answers(choice.title)
  }

  private static func reason(_ number: Int32) -> String {
    number == ENOMEDIUM
      ? "neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR is set" : errorText(number)
  }

  // MARK: The thread

  /// Why the bus is not served, or no longer.
  private enum Failure {
    case noLibrary
    case noBus(Int32)
    /// The name is another's, or not to be had.
    case noName(Int32)
    case lost(Int32)
    case ended
  }

  private func run() {
    var searches = 0
    while true {
      let failure = serve()
      var isLost = false
      switch failure {
      case .ended: return
      case .noLibrary:
        return log("there is no libsystemd (libsystemd.so.0): \(cost)")
      case .noName(EEXIST):
        return log("another program is \(Self.name) on \(choice.title): \(cost)")
      case .noName(let number):
        return log("\(choice.title) refuses the name \(Self.name) (\(errorText(number))): \(cost)")
      case .lost(let number):
        log("\(choice.title) is gone (\(errorText(number))): \(cost) until it is back")
        (searches, isLost) = (0, true)
      case .noBus(let number):
        // One that never was is not waited for: nothing wakes up here without a bus.
        if searches == 0 { return log("\(choice.title) does not answer (\(Self.reason(number))): \(cost)") }
      }
      guard isLost || searches > 0 else { return }
      if searches == Self.longestSearch { return log("\(choice.title) has not come back: \(cost)") }
      if sleepUnlessOver(.seconds(1 << searches)) { return }
      searches += 1
    }
  }

  private var cost: String { "requests come by the socket and opportune alone" }

  /// - Returns: whether the end has come.
  private func sleepUnlessOver(_ time: Duration) -> Bool {
    let end = ContinuousClock.now + time
    while !(lock.withLock { isOver }) {
      let left = ContinuousClock.now.duration(to: end)
      if left <= .zero { return false }
      var polled = pollfd(fd: event, events: Int16(POLLIN), revents: 0)
      _ = poll(&polled, 1, Int32(clamping: Int64(left / .milliseconds(1)) + 1))
      opp_host_event_take(event)
    }
    return true
  }

  /// Is on the bus until one of both ends.
  private func serve() -> Failure {
    guard opp_bus_has_library() else { return .noLibrary }
    var opened: OpaquePointer?
    let status = opp_bus_open(choice.isSystem, UInt64(Self.patience / .microseconds(1)), &opened)
    guard status >= 0, let bus = opened else { return .noBus(-status) }
    defer {
      lock.withLock { (isServing, pending) = (false, []) }
      opp_bus_close(bus)
    }
    // First the object, so that no call comes too early; this object outlives the connection.
    let served = opp_bus_serve(
      bus, Self.path,
      { message, context, _ in
        guard let context else { return 0 }
        return Unmanaged<HostBus>.fromOpaque(context).takeUnretainedValue().handle(message)
      }, Unmanaged.passUnretained(self).toOpaque())
    if served < 0 { return .noBus(-served) }
    // Before the name is there, so that who has seen it misses no change.
    lock.withLock { isServing = true }
    let claimed = opp_bus_claim(bus, Self.name)
    if claimed < 0 { return .noName(-claimed) }
    log("shells find the host as \(Self.name) on \(choice.title)")
    while true {
      let handled = opp_bus_process(bus)
      if handled < 0 { return .lost(-handled) }
      let (news, isOver) = lock.withLock {
        defer { pending = [] }
        return (pending, self.isOver)
      }
      if isOver { return .ended }
      for one in news {
        do { try emit(one, bus) } catch { return .lost((error as? BusFailure)?.number ?? EIO) }
      }
      if handled > 0 { continue }
      let waited = opp_bus_wait(bus, event)
      if waited < 0 { return .lost(-waited) }
      // Before the changes are taken, so that none is left without a wake-up.
      opp_host_event_take(event)
    }
  }

  private func emit(_ news: News, _ bus: OpaquePointer) throws {
    let (signal, texts): (BusSignal, [String]) =
      switch news {
      case .change(let change):
        if let state = change.state {
          (.stateChanged, [change.name, state])
        } else {
          (.ended, [change.name])
        }
      case .notified(let fired):
        // D-Bus has no value for none.
        (
          .notified,
          [
            fired.app, fired.notification.body, fired.notification.action ?? "",
            fired.notification.sound ?? "",
          ]
        )
      }
    var made: OpaquePointer?
    try BusFailure.check(opp_bus_signal(bus, &made, Self.path, Self.name, signal.rawValue))
    try write(made, on: bus) { writer in
      for text in texts { try writer.text(text) }
    }
  }

  /// Sends a message, or drops it where it cannot be written.
  private func write(
    _ made: OpaquePointer?, on bus: OpaquePointer?, _ body: (BusWriter) throws -> Void
  ) throws {
    guard let made else { throw BusFailure(number: EIO) }
    do { try body(BusWriter(message: made)) } catch {
      opp_bus_drop(made)
      throw error
    }
    try BusFailure.check(opp_bus_send(bus, made))
  }

  // MARK: Calls

  /// - Returns: 1 where the call was answered, 0 where there is no such method, `-errno`.
  private func handle(_ call: OpaquePointer) -> Int32 {
    guard opp_bus_is_call(call) else { return 0 }
    do {
      try checkUser(of: call)
      let member = opp_bus_member(call).map { String(cString: $0) } ?? ""
      let interface = opp_bus_interface(call).map { String(cString: $0) }
      if interface == "org.freedesktop.DBus.Introspectable", member == "Introspect" {
        try answer(call) { try $0.text(BusMethod.introspection) }
        return 1
      }
      guard interface == nil || interface == Self.name, let method = BusMethod(rawValue: member) else {
        return 0
      }
      let signature = String(cString: opp_bus_signature(call))
      let request = try method.request(signature, BusReader(message: call))
      guard let host = host() else {
        throw BusRefusal(name: Self.name + ".Error.NotReady", why: "the host starts or ends")
      }
      let done = try HostSocket.carryOut(request, host)
      guard done.ok else { throw BusRefusal.arguments(done.error ?? "it was refused") }
      try answer(call) { try method.write(done, to: $0) }
      return 1
    } catch let error as ProcessHostError {
      return refuse(call, BusRefusal(name: error.busName, why: error.message))
    } catch let error as BusRefusal {
      return refuse(call, error)
    } catch let error as BusFailure {
      return -error.number
    } catch {
      return -EIO
    }
  }

  private func checkUser(of call: OpaquePointer) throws {
    var user: UInt32 = 0
    let known = opp_bus_user(call, &user) >= 0
    let own = geteuid()
    if known, user == own { return }
    log("a call of user \(known ? userName(user) : "unknown") on \(choice.title) was refused")
    throw BusRefusal(
      name: "org.freedesktop.DBus.Error.AccessDenied",
      why: "it is the host of user \(userName(own)), who alone may ask")
  }

  private func answer(_ call: OpaquePointer, _ body: (BusWriter) throws -> Void) throws {
    var made: OpaquePointer?
    try BusFailure.check(opp_bus_answer(call, &made))
    try write(made, on: nil, body)
  }

  private func refuse(_ call: OpaquePointer, _ refusal: BusRefusal) -> Int32 {
    let status = opp_bus_refuse(call, refusal.name, refusal.why)
    return status < 0 ? status : 1
  }
}
