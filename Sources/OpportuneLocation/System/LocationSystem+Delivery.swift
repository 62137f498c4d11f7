import OpportuneApps

extension LocationSystem {
  /// A fix has come: everyone who may have it gets it, and the fences are held against it. (R-LOC-06)
  mutating func accept(_ fix: Fix) {
    let crossings = monitor.update(fix)
    switch monitor.lastVerdict {
    case .used:
      broker.count(fix)
      for number in updates { offer(fix, to: number) }
    case .outlier where policy.deliversOutliers:
      for number in updates where requests[number]?.request.service == .updates { offer(fix, to: number) }
    // Outliers and old fixes are not delivered.
    case .outlier, .old, nil: break
    }
    for crossing in crossings { happened(crossing) }
  }

  private mutating func offer(_ fix: Fix, to number: RequestID) {
    guard let accepted = requests[number], let app = apps[accepted.app] else { return }
    switch accepted.request {
    case .standard(_, let filter):
      if let last = accepted.last, filter > 0, Ellipsoid.distance(last.position, fix.position) < filter {
        return
      }
      guard app.state.mayExecute else { return }
      give(accepted.app, .updates, .update(number, old: accepted.last, new: fix), fix, number)
    case .tracking:
      guard app.state.mayExecute else { return }
      give(accepted.app, .updates, .update(number, old: accepted.last, new: fix), fix, number)
    case .significantChange(let own):
      // The user's setting takes precedence. (R-LOC-02)
      let threshold = app.significantDistance ?? own ?? policy.significantDistance
      guard let last = accepted.last else {
        requests[number]?.last = fix
        return
      }
      let moved = Ellipsoid.distance(last.position, fix.position)
      let (a, b) = (last.accuracy.standardDeviation, fix.accuracy.standardDeviation)
      let sure = Normal.below((moved - threshold) / (a * a + b * b).squareRoot())
      guard accepted.changedCell || sure >= policy.monitor.confidence else { return }
      requests[number]?.changedCell = false
      give(accepted.app, .significantChange, .significantChange(number, fix), fix, number)
    case .region: return
    }
  }

  /// Delivers if that is permitted now, and only then. The app is reanimated for what may reanimate it.
  /// (R-AUTH-12)
  private mutating func give(
    _ id: AppID, _ service: LocationService, _ notice: LocationNotice, _ fix: Fix?, _ number: RequestID
  ) {
    guard !checks.contains(.delivery) || mayReceive(id, service) else { return }
    if let fix { requests[number]?.last = fix }
    if service != .updates, apps[id]?.state.mayExecute == false { effects.append(.app(id, .locationEvent)) }
    noteUse(id)
    effects.append(.deliver(id, notice))
  }

  /// A change of cell is a significant change, whatever the distance: the next fix is given. (R-LOC-11)
  mutating func moveTo(cell number: UInt64) {
    defer { cell = number }
    guard let cell, cell != number else { return }
    for request in updates {
      if case .significantChange? = requests[request]?.request { requests[request]?.changedCell = true }
    }
  }

  // MARK: Crossings

  /// Tells the apps that execute; the others are not woken for that. (R-GEO-10)
  mutating func failMonitoring(_ failure: MonitoringFailure) {
    for number in byFence.values.sorted() {
      guard let app = requests[number]?.app, apps[app]?.state.mayExecute == true else { continue }
      effects.append(.deliver(app, .monitoringFailed(number, failure)))
    }
  }

  /// The application manager gets word of a crossing. (R-AUTH-14, R-GEO-01)
  mutating func happened(_ crossing: Crossing) {
    if let mode = modes[crossing.fence] { return crossed(mode: mode, crossing.kind) }
    guard let number = byFence[crossing.fence], let accepted = requests[number] else { return }
    if crossing.kind == .expired { return remove(number, ended: .expired) }
    let flow = Flow(app: accepted.app, request: number, crossing: crossing, stage: .alerting)
    if !policy.alertsAlways, mayReceive(accepted.app, .regions) { return deliver(flow) }
    let alert = AlertID(number: nextNumber())
    flows[alert] = flow
    if policy.secondCheck.isBefore {
      ask(alert) { .askingBefore($0) }
    } else {
      show(alert)
    }
  }

  /// Asks the location subsystem: at once, or by a message that takes its time. (R-AUTH-15 to -18)
  private mutating func ask(_ alert: AlertID, _ stage: (QueryID) -> Flow.Stage) {
    guard let app = flows[alert]?.app else { return }
    let query = QueryID(number: nextNumber())
    flows[alert]?.stage = stage(query)
    if policy.asksAsynchronously {
      effects.append(.query(query, app))
    } else {
      proceed(alert, permitted: mayMonitor(app, .regions))
    }
  }

  private func flow(waitingFor query: QueryID) -> (key: AlertID, value: Flow)? {
    flows.first { $0.value.stage == .askingBefore(query) || $0.value.stage == .askingAfter(query) }
  }

  mutating func arrive(_ query: QueryID) throws(LocationSystemError) {
    guard let flow = flow(waitingFor: query) else { throw LocationSystemError(.unknownQuery(query)) }
    effects.append(.reply(query, permitted: mayMonitor(flow.value.app, .regions)))
  }

  mutating func continueFlow(_ query: QueryID, permitted: Bool) throws(LocationSystemError) {
    guard let flow = flow(waitingFor: query) else { throw LocationSystemError(.unknownQuery(query)) }
    proceed(flow.key, permitted: permitted)
  }

  private mutating func proceed(_ alert: AlertID, permitted: Bool) {
    guard let flow = flows[alert] else { return }
    switch flow.stage {
    case .askingBefore:
      guard permitted || !checks.contains(.beforeAlert) else {
        flows[alert] = nil
        return
      }
      show(alert)
    case .askingAfter:
      guard permitted || !checks.contains(.afterOpen) else {
        flows[alert] = nil
        return
      }
      open(alert, flow)
    case .alerting, .opening: break
    }
  }

  private mutating func show(_ alert: AlertID) {
    guard let flow = flows[alert], case .region(_, _, let text)? = requests[flow.request]?.request else {
      return
    }
    let name = apps[flow.app]?.manifest.identifier ?? ""
    flows[alert]?.stage = .alerting
    let told = LocationAlert(
      app: name, text: text.text(of: flow.crossing.kind),
      systemText: "If you open \"\(name)\", it is told that you crossed this border.")
    effects.append(.alert(alert, flow.app, told))
  }

  /// Close: the app is not activated and learns nothing. (R-AUTH-20)
  mutating func answer(_ alert: AlertID, _ answer: AlertAnswer) throws(LocationSystemError) {
    guard let flow = flows[alert], flow.stage == .alerting else {
      throw LocationSystemError(.unknownAlert(alert))
    }
    switch answer {
    case .close: flows[alert] = nil
    case .open where policy.secondCheck.isAfter: ask(alert) { .askingAfter($0) }
    case .open: open(alert, flow)
    }
  }

  /// Brings the app in front; it is told when it is there. (R-AUTH-20)
  private mutating func open(_ alert: AlertID, _ flow: Flow) {
    guard let state = apps[flow.app]?.state else { return }
    if state.isForeground {
      flows[alert] = nil
      deliver(flow)
    } else {
      flows[alert]?.stage = .opening
      effects.append(.app(flow.app, state == .notRunning || state == .terminated ? .launch : .bringForward))
    }
  }

  mutating func deliver(_ flow: Flow) {
    give(flow.app, .regions, .crossing(flow.request, flow.crossing), nil, flow.request)
  }

  mutating func drop(_ alert: AlertID, _ flow: Flow) {
    flows[alert] = nil
    if flow.stage == .alerting { effects.append(.withdraw(alert)) }
  }
}
