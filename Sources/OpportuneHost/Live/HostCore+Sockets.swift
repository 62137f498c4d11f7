internal import Glibc
internal import OpportuneApps
internal import OpportuneBase

/// Sockets of programs that are kept alive while these are suspended: what comes reanimates the app into the
/// background, and nothing else costs anything. (R-VOIP-01, R-VOIP-03)
extension HostCore {
  /// A program hands a socket over.
  func keepAlive(_ number: Int64, of app: HostedProcess, _ client: ProgramClient) {
    guard let descriptor = client.takePassed() else {
      return client.fail("no descriptor has come for keepAlive \(number)")
    }
    var told = ClientTold("keepAliveBegan")
    told.socket = number
    let reason: String? =
      if app.declared?.mayKeepAlive == false {
        "its manifest has no background mode voip"
      } else if client.sockets[number] != nil {
        "a socket of this number is kept alive"
      } else if client.sockets.count >= KeptSocket.most {
        "\(KeptSocket.most) sockets of it are kept alive, the most there may be"
      } else {
        KeptSocket.obstacle(descriptor, connection: client.descriptor)
      }
    if let reason {
      close(descriptor)
      told.event = "keepAliveRefused"
      told.reason = reason
    } else {
      client.keepAlive(KeptSocket(number, descriptor))
    }
    client.tell(told)
  }

  /// Those that are looked at by now: of an app of which nothing executes.
  func watchedSockets(of app: HostedProcess) -> [KeptSocket] {
    guard let client = app.client, !client.sockets.isEmpty, let state = system.state(of: app.id),
      [.suspended, .hibernated].contains(state)
    else { return [] }
    return Array(client.sockets.values)
  }

  /// When a socket is looked at that waits by now.
  func looksAtSockets(of app: HostedProcess) -> Moment? {
    watchedSockets(of: app).compactMap { $0.isLookedAt(at: now) ? nil : $0.waitsUntil }.min()
  }

  /// Something has come for a socket of an app.
  ///
  /// What has come for all of them is told in one go.
  func dataArrived(for app: HostedProcess) {
    let arrivals = watchedSockets(of: app).sorted { $0.number < $1.number }.compactMap { socket in
      socket.look(now: now).map { (socket.number, $0.bytes, $0.hasEnded) }
    }
    guard !arrivals.isEmpty, let client = app.client else { return }
    for (number, bytes, hasEnded) in arrivals {
      do throws(ProcessHostError) { try post(.data(bytes: bytes), to: app) } catch {
        return app.note([error.message])
      }
      client.ask(.didReceiveData(socket: number, bytes: bytes), now: now)
      // Nothing comes any more.
      if hasEnded { client.letGo(number) }
    }
    goOnReanimated(app)
  }

  /// An app was reanimated for what has come for it: holds it in background until its program has answered.
  func goOnReanimated(_ app: HostedProcess) {
    app.isReanimated = true
    hold(app)
    do throws(ProcessHostError) { try post(.does(.handled), to: app) } catch { app.note([error.message]) }
  }

  /// A program has answered all that it was told of its sockets and messages: it is suspended again, unless
  /// somebody has said something else meanwhile.
  func suspendReanimated(_ app: HostedProcess) {
    guard app.isReanimated, apps[app.name] === app,
      app.client?.questions.contains(where: { $0.question.isArrival }) != true
    else { return }
    app.isReanimated = false
    guard system.state(of: app.id) == .background, app.declaredKeep == nil, app.pending == nil else { return }
    do throws(ProcessHostError) { _ = try suspend(app.name) } catch { app.note([error.message]) }
  }
}
