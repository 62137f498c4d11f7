import OpportuneApps
import OpportuneIO
import SystemPackage

/// The fixes of a gpsd, as they come, over an app's I/O: an endless sequence, since a gpsd that goes is
/// waited for.
///
/// ```swift
/// for await update in try GPSDClient(io, address: .ipv4("127.0.0.1", port: 2947)).updates() {
///   if case .fix(let fix) = update { system.handle(.fix(fix), at: fix.time) }
/// }
/// ```
///
/// While the app is suspended its I/O is held, and no fixes come. Safe to use from any thread.
public struct GPSDClient: LocationSource {
  /// gpsd's port, by default on the loopback interface alone.
  public static let port: UInt16 = 2947

  public let kind = SourceKind.satellite

  private let io: AppIO
  private let address: SocketAddress
  private let session: GPSDSession
  private let start: ContinuousClock.Instant

  /// - Parameters:
  ///   - io: whose class the traffic has.
  ///   - start: the host's moment zero, from which the fixes' times count.
  /// - Throws: ``LocationError``: `outOfRange`.
  public init(
    _ io: AppIO, address: SocketAddress, options: GPSDClient.Options = GPSDClient.Options(),
    start: ContinuousClock.Instant = .now
  ) throws(LocationError) {
    self.io = io
    self.address = address
    self.start = start
    session = try GPSDSession(options, at: .zero + start.duration(to: .now))
  }

  /// Connects, and goes on until nobody reads the sequence any more. Updates that are not read yet wait; of
  /// fixes, the last thousand. Not available is a gpsd that is gone, says nothing, or has no fix; with the
  /// next fix it is again.
  public func updates() -> AsyncStream<SourceUpdate> {
    AsyncStream(bufferingPolicy: .bufferingNewest(1000)) { continuation in
      let task = Task { await run(continuation) }
      continuation.onTermination = { _ in task.cancel() }
    }
  }

  private func run(_ updates: AsyncStream<SourceUpdate>.Continuation) async {
    var session = session
    var socket: FileDescriptor?
    while !Task.isCancelled {
      var event: GPSDSession.Event
      if let connected = socket {
        event = await receive(from: connected, until: session.deadline)
      } else {
        try? await Task.sleep(until: start + .nanoseconds(session.deadline.nanoseconds), clock: .continuous)
        event = .elapsed
      }
      var effects = session.handle(event, at: now)
      if event == .ended { effects.insert(.close, at: 0) }
      while !effects.isEmpty {
        switch effects.removeFirst() {
        case .connect:
          socket = try? await io.connect(to: address, within: session.options.silence)
          event = socket == nil ? .ended : .connected
          effects += session.handle(event, at: now)
        case .send(let bytes):
          if let connected = socket, await !send(bytes, to: connected, within: session.options.silence) {
            effects = [.close] + session.handle(.ended, at: now)
          }
        case .close:
          if let connected = socket { try? await io.close(connected) }
          socket = nil
        case .update(let update): updates.yield(update)
        }
      }
    }
    if let socket { try? await io.close(socket) }
    updates.finish()
  }

  private var now: Moment { .zero + start.duration(to: .now) }

  private func receive(from socket: FileDescriptor, until deadline: Moment) async -> GPSDSession.Event {
    do throws(IOError) {
      // A buffer of its own each time: after a deadline the kernel may still have the last one.
      let buffer = try IOBuffer(count: 4096)
      let count = try await io.receive(socket, into: buffer, within: max(deadline - now, .milliseconds(1)))
      return count == 0 ? .ended : .received(try buffer.bytes(in: 0..<count))
    } catch {
      return error.code == .deadlineExceeded ? .elapsed : .ended
    }
  }

  private func send(_ bytes: [UInt8], to socket: FileDescriptor, within limit: Duration) async -> Bool {
    do {
      try await io.send(socket, bytes, within: limit)
      return true
    } catch {
      return false
    }
  }
}
