import OpportuneApps

extension LocationSystem {
  mutating func handle(_ event: AppLocationEvent, of id: AppID) throws(LocationSystemError) {
    switch event {
    case .moved(let state): moved(id, to: state)
    case .requestAuthorization(let type): requestAuthorization(id, type)
    case .start(let request): try start([request], id)
    case .startAll(let requests): try start(requests, id)
    case .stop(let request):
      guard requests[request]?.app == id else { throw LocationSystemError(.unknownRequest(id, request)) }
      remove(request)
    case .voice(let isOn): apps[id]?.isInvokedByVoice = isOn
    case .setAuthorization(let status): choose(id, status)
    case .setSignificantDistance(let metres):
      if let metres {
        try validated { () throws(LocationError) in try check(metres, "distance", within: 1...1e7) }
      }
      apps[id]?.significantDistance = metres
    case .reinstalled: reinstalled(id)
    }
  }

  private func validated(_ body: () throws(LocationError) -> Void) throws(LocationSystemError) {
    do { try body() } catch { throw LocationSystemError(.location(error)) }
  }

  /// (R-LOC-09, R-LOC-10, R-LOC-11, R-GEO-08)
  private mutating func start(_ all: [LocationRequest], _ id: AppID) throws(LocationSystemError) {
    for request in all { try validated { () throws(LocationError) in try request.validate() } }
    let fences = all.count { $0.service == .regions }
    // Of fences it is the same for all.
    let ofFences = all.first { $0.service == .regions }.flatMap { refusal($0, id) }
    let limit = policy.monitor.maximumFences
    guard ofFences != nil || fences <= limit - monitor.count else {
      throw LocationSystemError(.location(LocationError(.tooManyFences(limit: limit))))
    }
    requests.reserveCapacity(requests.count + all.count)
    byFence.reserveCapacity(byFence.count + fences)
    for request in all {
      if let refusal = request.service == .regions ? ofFences : refusal(request, id) {
        effects.append(.refused(id, refusal))
      } else {
        try accept(request, id)
      }
    }
  }

  private mutating func accept(_ request: LocationRequest, _ id: AppID) throws(LocationSystemError) {
    var accepted = Accepted(app: id, request: request)
    if case .region(let fence, _, _) = request {
      do { accepted.fence = try monitor.add(fence) } catch { throw LocationSystemError(.location(error)) }
    }
    let number = RequestID(number: nextNumber())
    requests[number] = accepted
    apps[id]?.requests.append(number)
    switch request {
    case .standard, .significantChange: updates.append(number)
    case .tracking:
      updates.append(number)
      apps[id]?.tracks += 1
    case .region(_, let accuracy, _):
      apps[id]?.fences[accuracy, default: 0] += 1
      if let fence = accepted.fence { byFence[fence] = number }
    }
    effects.append(.started(id, number))
  }

  private func refusal(_ request: LocationRequest, _ id: AppID) -> LocationRefusal? {
    guard let app = apps[id] else { return .notAuthorized }
    if !isEnabled { return .disabled }
    switch request {
    case .standard, .tracking:
      if checks.contains(.request), !mayReceive(id, .updates) { return .notAuthorized }
      if !app.state.mayExecute { return .notExecuting }
      if case .tracking = request, !app.manifest.backgroundModes.contains(.location) { return .missingMode }
    case .significantChange, .region:
      if checks.contains(.request), !mayMonitor(id, request.service) { return .notAuthorized }
      if case .region = request, policy.fencesNeedMode, !app.manifest.backgroundModes.contains(.location) {
        return .missingMode
      }
    }
    return nil
  }

  mutating func remove(_ number: RequestID, ended: RequestEnd? = nil) {
    guard let accepted = requests.removeValue(forKey: number) else { return }
    let id = accepted.app
    if let place = apps[id]?.requests.binarySearch(number) { apps[id]?.requests.remove(at: place) }
    updates.removeAll { $0 == number }
    if case .tracking = accepted.request { apps[id]?.tracks -= 1 }
    if case .region(_, let accuracy, _) = accepted.request {
      if let fence = accepted.fence {
        byFence[fence] = nil
        // A fence that has expired is gone already.
        if monitor.state(of: fence) != nil { try? monitor.remove(fence) }
      }
      let others = (apps[id]?.fences[accuracy] ?? 1) - 1
      apps[id]?.fences[accuracy] = others > 0 ? others : nil
      for (alert, flow) in flows where flow.request == number { drop(alert, flow) }
    }
    if let ended { effects.append(.ended(id, number, ended)) }
  }

  /// Regular updates end with suspension; what can reanimate the app stays. (R-LOC-10, R-GEO-07, R-LOC-13)
  private mutating func moved(_ id: AppID, to state: LifecycleState) {
    apps[id]?.state = state
    if !state.mayExecute {
      for number in updates where requests[number]?.app == id && requests[number]?.request.service == .updates
      {
        remove(number, ended: .suspended)
      }
    }
    for (alert, flow) in flows where flow.app == id && flow.stage == .opening {
      if state.isForeground {
        flows[alert] = nil
        deliver(flow)
      } else if state == .terminated || state == .notRunning {
        // The app was not launched.
        flows[alert] = nil
      }
    }
  }

  private mutating func reinstalled(_ id: AppID) {
    for number in apps[id]?.requests ?? [] { remove(number, ended: .reinstalled) }
    choose(id, .notDetermined)
    apps[id]?.answered = []
    apps[id]?.significantDistance = nil
  }
}

extension [RequestID] {
  /// Numbers only grow, so requests in their order are sorted.
  fileprivate func binarySearch(_ number: RequestID) -> Int? {
    var (low, high) = (startIndex, endIndex)
    while low < high {
      let middle = (low + high) / 2
      if self[middle] < number { low = middle + 1 } else { high = middle }
    }
    return low < endIndex && self[low] == number ? low : nil
  }
}
