import OpportuneApps

extension LocationSystem {
  /// Brings sources, indicators and deliveries into line with the present state; only changes have effects.
  mutating func refresh() {
    for id in apps.keys.sorted() { refresh(id) }
    if operatingMode != toldMode {
      toldMode = operatingMode
      effects.append(.mode(toldMode?.name))
    }
    forgetUnneeded()
    if broker.demand(demands(), at: now) { effects.append(.source(broker.running)) }
  }

  /// The last position is kept only while an app that may have it needs it. Distances are not measured from a
  /// fix that the app may not have any more.
  private mutating func forgetUnneeded() {
    var isNeeded = wantsFences
    for number in updates {
      guard let accepted = requests[number] else { continue }
      if mayMonitor(accepted.app, accepted.request.service) {
        isNeeded = true
      } else if accepted.last != nil {
        requests[number]?.last = nil
      }
    }
    if !isNeeded { monitor.forgetPlace() }
  }

  private mutating func refresh(_ id: AppID) {
    guard let app = apps[id] else { return }
    let indicator = indicator(of: id, app)
    if indicator != app.indicator {
      apps[id]?.indicator = indicator
      effects.append(.indicator(id, indicator))
    }
    let hasBanner = inUse(id) == [.quickReturn] && mayReceive(id, .updates)
    if hasBanner != app.hasBanner {
      apps[id]?.hasBanner = hasBanner
      effects.append(.banner(id, isShown: hasBanner))
    }
    // Tracking holds an app in background; when it ends, it is for the lifecycle to suspend it. (R-LOC-03,
    // R-LOC-04)
    let isHeld = app.tracks > 0 && mayReceive(id, .updates)
    if isHeld != app.isHeld {
      apps[id]?.isHeld = isHeld
      effects.append(.app(id, isHeld ? .trackingBegan : .trackingEnded))
    }
  }

  /// Whether it gets updates only because it is in use.
  func isOnlyForUse(_ app: AppLocation) -> Bool {
    if case .allowed(let type) = app.status { !type.whenNotInUse.contains(.updates) } else { false }
  }

  /// (R-AUTH-22)
  private func indicator(of id: AppID, _ app: AppLocation) -> LocationIndicator {
    // Not by way of its requests, which may be a hundred thousand fences.
    if updates.contains(where: { requests[$0]?.app == id && isLive($0) }) { return .solid }
    return !app.fences.isEmpty && mayMonitor(id, .regions) ? .hollow : .none
  }

  /// Whether a request would be given a fix now.
  private func isLive(_ number: RequestID) -> Bool {
    guard let accepted = requests[number] else { return false }
    return mayReceive(accepted.app, accepted.request.service)
  }

  var wantsFences: Bool {
    accuracyOfModes != nil || apps.contains { !$0.value.fences.isEmpty && mayMonitor($0.key, .regions) }
  }

  var nextSample: Moment? { try? monitor.nextSample(policy.sampling) }

  /// The finest accuracy that each app asks for now, in metres. (R-LOC-06)
  ///
  /// Fences ask only when a sample is due, and for no more than the distance to the nearest border needs.
  /// (R-LOC-14)
  private func demands() -> [AppID: Double] {
    var finest: [AppID: Double] = [:]
    func want(_ id: AppID, _ metres: Double) { finest[id] = min(finest[id] ?? .infinity, metres) }
    for number in updates where isLive(number) {
      guard let accepted = requests[number] else { continue }
      switch accepted.request {
      case .standard(let accuracy, _), .tracking(let accuracy): want(accepted.app, accuracy)
      case .significantChange: want(accepted.app, Self.significantAccuracy)
      case .region: break
      }
    }
    guard wantsFences, let sample = nextSample, sample <= now else { return finest }
    let border = monitor.lastFix == nil ? 0 : monitor.nearestBorder()
    if let accuracy = accuracyOfModes { want(.locationSystem, max(accuracy, border / 10)) }
    for (id, app) in apps where !app.fences.isEmpty && mayMonitor(id, .regions) {
      want(id, max(app.finestFence, border / 10))
    }
    return finest
  }

  /// What cells do. (R-LOC-11)
  private static let significantAccuracy = 3000.0
}
