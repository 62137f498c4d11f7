/// Events that reanimate apps: network keep-alive, fetch, location, power. (R-VOIP, R-MAN-02, R-PWR)
extension AppSystem {
  // MARK: Network

  mutating func received(_ bytes: Int, _ id: AppID) throws(AppsError) {
    if apps[id.number].state.mayExecute { return emit(.data(bytes: bytes), id) }
    guard policy.network.isOn else { return }
    try requireMode(.voip, id)
    wake(id, by: .data, .data(bytes: bytes))
  }

  mutating func setHeartbeat(_ interval: Duration?, _ id: AppID) throws(AppsError) {
    // None any more is said also of one that has been suspended meanwhile.
    disarm(.heartbeat, of: id)
    if let interval {
      try requireExecuting(id)
      try requireMode(.voip, id)
      let minimum = policy.network.minimumHeartbeat
      guard interval >= minimum else { throw AppsError(.heartbeatTooShort(id, interval, minimum: minimum)) }
    }
    apps[id.number].heartbeat = interval
  }

  mutating func heartbeatIsDue(_ id: AppID) {
    guard !apps[id.number].state.mayExecute else { return }
    wake(id, by: .heartbeat, .heartbeat)
  }

  // MARK: Fetch

  mutating func armFetch(of id: AppID) {
    let app = apps[id.number]
    guard policy.fetch.isOn, app.manifest.backgroundModes.contains(.fetch),
      deadline(.fetch, of: app.id) == nil
    else {
      return
    }
    let interval = app.fetchInterval ?? policy.fetch.shortest
    apps[id.number].fetchInterval = interval
    arm(.fetch, of: id, at: now + interval)
  }

  mutating func fetchIsDue(_ id: AppID) {
    guard !apps[id.number].state.isForeground else { return }
    guard reanimate(id, by: .fetch, reason: .fetch) else { return armFetch(of: id) }
    disarm(.event, of: id)
    arm(.fetchLimit, of: id, at: now + policy.fetch.limit)
    emit(.fetch, id)
  }

  mutating func fetched(_ result: FetchResult, _ id: AppID) {
    guard deadline(.fetchLimit, of: id) != nil else { return }
    disarm(.fetchLimit, of: id)
    fetchEnded(result, id)
  }

  mutating func fetchOverran(_ id: AppID) {
    emit(.diagnose(.fetchOverrun), id)
    fetchEnded(.failed, id)
  }

  /// The result decides when the next fetch is due.
  private mutating func fetchEnded(_ result: FetchResult, _ id: AppID) {
    let interval = apps[id.number].fetchInterval ?? policy.fetch.shortest
    let next =
      switch result {
      case .newData: interval / 2
      case .noData: interval * 2
      case .failed: interval * 3 / 2
      }
    apps[id.number].fetchInterval = min(policy.fetch.longest, max(policy.fetch.shortest, next))
    disarm(.fetch, of: id)
    armFetch(of: id)
    suspendUnlessHeld(id)
  }

  // MARK: Location

  mutating func locationEvent(_ id: AppID) {
    if reanimate(id, by: .location, reason: .location) { emit(.locationEvent, id) }
  }

  mutating func trackingBegan(_ id: AppID) throws(AppsError) {
    try requireExecuting(id)
    apps[id.number].isTracking = true
    complianceTracks(id)
  }

  mutating func trackingEnded(_ id: AppID) {
    apps[id.number].isTracking = false
    suspendUnlessHeld(id)
  }

  // MARK: Power

  mutating func setPower(_ supply: PowerSupply) {
    guard supply != power else { return }
    let hadFullPower = hasFullPower
    power = supply
    for app in apps where app.state == .background && hasFullPower != hadFullPower { limitTime(of: app.id) }
    if supply == .battery {
      // All foreground apps but the active one. (R-PWR-04)
      if policy.power.pushesBack { for id in front.dropLast() { moveOn(id, .leave) } }
      if policy.tasks.endsOnPowerLoss { expireAllTasks() }
    }
    for app in apps where app.state != .notRunning {
      refreshRestrictions(of: app.id)
      if supply == .battery, app.state == .background {
        // Full power may have kept it there; from now on the services decide.
        if audioService(app) != nil { arbitrateAudio(newest: app.id) }
        suspendUnlessHeld(app.id)
      }
    }
  }

  /// Full power lifts the limits of a background app. Without it they start from now on. (R-PWR-02, R-PWR-03)
  private mutating func limitTime(of id: AppID) {
    guard !hasFullPower else { return disarm(.tasks, .handler, .idle, of: id) }
    apps[id.number].cpuBehind = .zero
    startBudget(of: id)
    armTasks(of: id)
  }

  // MARK: Memory

  mutating func setFootprint(_ bytes: UInt64, _ id: AppID) {
    let index = id.number
    guard apps[index].state.isInMemory else { return }
    memoryInUse = memoryInUse - UInt128(apps[index].footprint) + UInt128(bytes)
    apps[index].footprint = bytes
  }
}
