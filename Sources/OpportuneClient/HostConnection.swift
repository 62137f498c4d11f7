internal import Glibc

/// The connection of a program to the host of programs, whose app it is.
///
/// While there is one, the host tells the program before it acts: see ``ProgramDelegate``. One thread sleeps
/// until something comes. The connection ends with ``leave()`` or with the last reference to it. Its methods
/// may be called on any thread and in callbacks.
public final class HostConnection: Sendable {
  private let loop: ClientLoop

  private init(_ loop: ClientLoop) { self.loop = loop }

  deinit { loop.leave() }

  /// Joins the host; blocks for at most the limit.
  ///
  /// The delegate hears `AppDelegate.didFinishLaunching(_:)` first, with the reason for which the
  /// app was launched: `message`, `system` where the host has started it once more by itself, else `user`;
  /// then where the app is: `AppDelegate.didBecomeActive()` or `AppDelegate.didEnterBackground()`. A
  /// ``RestartableProgramDelegate`` hears ``RestartableProgramDelegate/restoreState(_:)`` before, where the
  /// program was ended with its state saved.
  ///
  /// - Parameters:
  ///   - socket: `nil`: the host of this user, or what the variable `OPPORTUNE_SOCKET` says.
  ///   - limit: more than 0.
  ///   - delegate: held until the connection ends.
  /// - Throws: ``HostConnectionError``: `noPath`, `noHost`, `timedOut`, `refused`, `system`. Then the program
  ///   works alone, as without a host.
  public static func join(
    socket: String? = nil, within limit: Duration = .seconds(5), delegate: any ProgramDelegate
  ) throws(HostConnectionError) -> HostConnection {
    HostConnection(try ClientLoop.join(socket: socket, within: limit, delegate: delegate))
  }

  /// The app's name.
  public var name: String { loop.name }

  /// Whether the connection stands; without it, the host tells this program nothing.
  public var isJoined: Bool { loop.isJoined }

  /// Asks for time before suspension, to finish something. The host grants it up to its limit, which counts
  /// from when the app is to be suspended. ``endTask(_:)`` ends the task.
  ///
  /// - Parameters:
  ///   - name: for people, at most 100 characters.
  ///   - expired: called once, when the limit is over, among the callbacks, with the task. After its return
  ///     the task has ended, whether or not it was ended there, and the app is suspended.
  /// - Throws: ``HostConnectionError``: `taskRefused`, also where the program has 16 tasks already;
  ///   `taskName`, `left`. (R-TASK-01, R-TASK-08)
  public func beginTask(
    _ name: String, onExpiration expired: @escaping @Sendable (BackgroundTask) async -> Void
  ) async throws(HostConnectionError) -> BackgroundTask {
    let number = try await loop.begin(name, expired).get()
    return BackgroundTask(number: number, loop: loop)
  }

  /// Asks for time as ``beginTask(_:onExpiration:)`` with the task does, for who ends it elsewhere.
  ///
  /// - Parameters:
  ///   - name: for people, at most 100 characters.
  ///   - expired: called once, when the limit is over, among the callbacks.
  /// - Throws: ``HostConnectionError``, for the same reasons.
  public func beginTask(
    _ name: String, onExpiration expired: @escaping @Sendable () async -> Void = {}
  ) async throws(HostConnectionError) -> BackgroundTask {
    try await beginTask(name) { _ in await expired() }
  }

  /// Says that a task is finished. May be called again, and after its time has expired; of a connection that
  /// has ended it does nothing.
  public func endTask(_ task: BackgroundTask) { task.loop.end(task.number) }

  /// Runs `body` as a background task: it begins before the body, and ends after it. When the limit is over
  /// the body is cancelled, and the app is suspended once it has returned; a body that goes on nevertheless
  /// costs the program its connection, as any answer does that does not come. (R-TASK-01, R-RULE-10)
  ///
  /// - Parameter name: for people, at most 100 characters.
  /// - Throws: ``HostConnectionError``, for the reasons of `beginTask(_:onExpiration:)`: then nothing of
  ///   the body ran; and what the body throws.
  public func withBackgroundTask<Success: Sendable>(
    _ name: String, _ body: @escaping @Sendable () async throws -> Success
  ) async throws -> Success {
    let work = GrantedWork(body)
    let task: BackgroundTask
    do {
      task = try await beginTask(name) { (_: BackgroundTask) in
        work.cancel()
        _ = await work.result
      }
    } catch {
      work.refuse()
      throw error
    }
    let result = await work.run()
    endTask(task)
    return try result.get()
  }

  /// Has the host keep a connected socket alive, or the reading end of a pipe. What comes for it while the
  /// program is suspended, or its peer's end, reanimates the app into the background, and is told to
  /// `AppDelegate.didReceive(_:)` as `data`, once for each socket and suspension; after its return the app
  /// is suspended again. So the callback reads everything. What is there when the program is suspended counts
  /// as well, and what was left unread does once a second at most. The host reads nothing.
  ///
  /// The host has a duplicate until ``KeptSocket/letGo()``, the end of what the peer sends, of this
  /// connection or of the app. After ``ProgramDelegate/didLeaveHost(_:)`` no socket is kept: who joins anew
  /// hands them over again. An app that has a manifest is to have the mode `voip` in it.
  ///
  /// - Parameter descriptor: stays the caller's.
  /// - Throws: ``HostConnectionError``: `keepAliveRefused`, also where 16 sockets are kept already, and of
  ///   what is no socket and no pipe; `left`; `system`. (R-VOIP-01, R-VOIP-03)
  public func keepAlive(_ descriptor: Int32) async throws(HostConnectionError) -> KeptSocket {
    KeptSocket(number: try await loop.keepAlive(descriptor).get(), loop: loop)
  }

  /// Has the host ask for a heartbeat while the program is suspended: it goes on in background, hears
  /// `AppDelegate.didReceive(_:)` with `heartbeat`, sends something to its peers, and is suspended again
  /// after the return. So connections live on whose peers, or routers between, drop who is silent. The last
  /// call counts; after ``ProgramDelegate/didLeaveHost(_:)`` there are none. An app that has a manifest is to
  /// have the mode `voip` in it.
  ///
  /// - Parameter interval: from the suspension to the first, and from one to the next; at least ten minutes,
  ///   as each costs a wake-up, in whole milliseconds. `nil`: none any more.
  /// - Throws: ``HostConnectionError``: `heartbeatRefused`, `heartbeatInterval`, `left`, `system`.
  ///   (R-VOIP-02, R-VOIP-05)
  public func setHeartbeat(every interval: Duration?) async throws(HostConnectionError) {
    try await loop.setHeartbeat(every: interval).get()
  }

  /// Schedules a local notification: at its time the program hears ``ProgramDelegate/reply(to:)`` with a
  /// message of the origin `local` and the kind "notification", in whatever state the app is then. One that
  /// is suspended or hibernated goes on for it in background, and is suspended again after the return; one
  /// that has a manifest and does not run is started in background. One of the same name is replaced.
  ///
  /// It stays where the program leaves the host or ends: until the app has ended, or for good where it has a
  /// manifest. It does not where the host ends.
  ///
  /// - Parameters:
  ///   - notification: of its local date the instant is told to the host, which repeats follow from.
  ///   - name: the program's own, of 1 to 64 bytes; in the payload of the message.
  /// - Returns: the notification with its next date.
  /// - Throws: ``HostConnectionError``: `notificationRefused`, also where the app has 64 others; `fireDate`,
  ///   `notificationLength`, `left`, `system`. (R-MSG-02, R-MSG-09, R-MSG-10)
  @discardableResult public func schedule(
    _ notification: LocalNotification, as name: String
  ) async throws(HostConnectionError) -> PendingNotification {
    try await loop.schedule(notification, as: name).get()
  }

  /// The notification of this name does not fire any more; also where there is none. Of a connection that has
  /// ended it does nothing.
  public func cancelNotification(_ name: String) { loop.cancel(name) }

  /// No notification of the app fires any more. Of a connection that has ended it does nothing. (R-MSG-10)
  public func cancelLocalNotifications() { loop.cancel(nil) }

  /// The notifications of the app that are to fire, also those of an earlier run of its program; the next
  /// first.
  ///
  /// - Throws: ``HostConnectionError``: `left`, `system`.
  public func pendingNotifications() async throws(HostConnectionError) -> [PendingNotification] {
    try await loop.pending().get()
  }

  /// Has the host of programs list the apps inside of this program, as PROGRAM/APP with the identifiers of
  /// their manifests, and ask for them: who brings one forward there has the program come to the front, and
  /// then the app by `AppHost.bringForward(_:)`; who suspends one has it leave the front, to be suspended by
  /// its policy; who terminates one, by `AppHost.terminate(_:)`. Where the program leaves the front, so does
  /// the app that is there, and comes back with it. What an app may use in its state is still decided inside
  /// the program, and a suspended program executes none of them. It is done in its turn among the callbacks.
  ///
  /// - Parameters:
  ///   - apps: held until the connection ends, or this is called with others, which take their place.
  ///   - refused: called with the identifier and the reason, for people, of one that the host does not list:
  ///     whose identifier is no name for it (1 to 64 letters, digits, '.', '_' and '-') or is taken, and a
  ///     65th. Among the callbacks of the delegate.
  public func list(
    _ apps: AppHost,
    onRefusal refused: @escaping @Sendable (_ app: String, _ reason: String) -> Void = { _, _ in }
  ) { loop.list(apps, refused) }

  /// Leaves the host. From then on the host treats the program as one that does not cooperate, and no
  /// callback begins. May be called again.
  public func leave() { loop.leave() }
}

/// Time that the host has granted, until ``HostConnection/endTask(_:)``. It does not end with its last
/// reference.
public struct BackgroundTask: Sendable {
  let number: Int64
  let loop: ClientLoop

  /// Ends the task.
  @available(*, deprecated, message: "use endTask(_:) of the connection, as of an app inside a program")
  public func end() { loop.end(number) }
}

/// A local notification that is to fire.
public struct PendingNotification: Sendable, Hashable {
  /// The program's own for it.
  public let name: String
  /// When it fires next: seconds since 1970, in whole milliseconds.
  public let fires: Double
}

/// A socket that the host keeps alive, until ``letGo()``. It is kept beyond the last reference.
public struct KeptSocket: Sendable {
  let number: Int64
  let loop: ClientLoop

  /// Has the host close its duplicate; to be called before the program closes its own, whose peer sees no end
  /// else. May be called again, and after the socket has ended.
  public func letGo() { loop.letGo(number) }
}
