internal import OpportuneApps
internal import OpportuneBase

/// Programs that go on now and then while they are suspended, to show a peer that they are there.
/// (R-VOIP-02, R-VOIP-05)
extension HostCore {
  /// A program says how often it is to be asked for its heartbeat while it is suspended.
  ///
  /// - Parameters:
  ///   - number: of the request, the program's own.
  ///   - milliseconds: from its suspension, and from one to the next; `nil`: it is asked for none.
  func setHeartbeat(
    _ number: Int64, every milliseconds: Int64?, of app: HostedProcess, _ client: ProgramClient
  ) {
    var told = ClientTold("heartbeatSet")
    told.number = number
    if let milliseconds, milliseconds <= 0 {
      (told.event, told.reason) = ("heartbeatRefused", "after_ms is \(milliseconds): expected more than 0")
      return client.tell(told)
    }
    do throws(ProcessHostError) {
      try post(.does(.heartbeat(milliseconds.map { .milliseconds($0) })), to: app)
      client.hasHeartbeat = milliseconds != nil
    } catch {
      (told.event, told.reason) = ("heartbeatRefused", error.message)
    }
    client.tell(told)
  }

  /// A heartbeat of an app is due, which was suspended until now: its program is asked for it, and goes on
  /// until it has answered.
  func askForHeartbeat(_ app: HostedProcess) {
    if let client = app.client, client.hasHeartbeat { client.ask(.heartbeat, now: now) }
    goOnReanimated(app)
    suspendReanimated(app)  // where nobody is there to answer
  }

  /// The program that has asked for heartbeats leaves: there are none any more.
  func endHeartbeat(of app: HostedProcess, _ client: ProgramClient) {
    guard client.hasHeartbeat else { return }
    do throws(ProcessHostError) { try post(.does(.heartbeat(nil)), to: app) } catch {
      app.note([error.message])
    }
  }
}
