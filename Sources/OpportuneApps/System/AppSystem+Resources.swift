/// Shared-resource locks and hardware. (R-LOCK, R-HW, R-GFX)
extension AppSystem {
  mutating func lock(_ resource: SharedResource, _ id: AppID) throws(AppsError) {
    try requireExecuting(id)
    apps[id.number].locks[resource, default: 0] += 1
    emit(.lockGranted(resource), id)
  }

  mutating func unlock(_ resource: SharedResource, _ id: AppID) throws(AppsError) {
    guard let count = apps[id.number].locks[resource] else {
      throw AppsError(.notHeld(id, "a lock on \(resource)"))
    }
    apps[id.number].locks[resource] = count == 1 ? nil : count - 1
  }

  /// Whether the app must not be suspended, because it holds a lock that ends only with the app. (R-LOCK-01)
  func holdsFatalLock(_ app: LifecycleRecord) -> Bool {
    guard policy.restrictions.resources.contains(.locks), !app.locks.isEmpty else { return false }
    switch policy.restrictions.heldAtSuspension {
    case .terminate: return true
    case .revokeOrTerminate: return app.locks.keys.contains { !$0.isRevocable }
    case .revokeAll: return false
    }
  }

  /// Called at suspension: revokes what can be revoked, and reports the holder of other locks. (R-LOCK-02)
  mutating func reportHeldLocks(_ id: AppID) {
    guard policy.restrictions.resources.contains(.locks) else { return }
    let held = apps[id.number].locks.keys.sorted()
    for resource in held {
      switch policy.restrictions.heldAtSuspension {
      case .revokeOrTerminate where resource.isRevocable, .revokeAll: revoke(resource, id)
      case .revokeOrTerminate, .terminate: break
      }
      emit(.diagnose(.heldLock(resource)), id)
    }
  }

  private mutating func revoke(_ resource: SharedResource, _ id: AppID) {
    apps[id.number].locks[resource] = nil
    emit(.lockRevoked(resource), id)
  }

  /// Revokes locks when the app goes to the background. (R-LOCK-02)
  mutating func revokeAtBackground(_ id: AppID) {
    guard policy.restrictions.resources.contains(.locks), policy.restrictions.heldAtSuspension == .revokeAll
    else { return }
    for resource in apps[id.number].locks.keys.sorted() { revoke(resource, id) }
  }

  mutating func request(_ hardware: Hardware, _ id: AppID) throws(AppsError) {
    try requireExecuting(id)
    guard restrictions(of: id).deniedHardware.contains(hardware) else {
      apps[id.number].grants.insert(hardware)
      return emit(.granted(hardware), id)
    }
    emit(.denied(hardware), id)
    guard hardware == .gpu else { return }
    breaks(.noGraphicsHardware, id)
    emit(.diagnose(.gpuInBackground), id)
    if policy.restrictions.gpuInBackground == .terminate { moveOn(id, .terminate) }
  }

  mutating func release(_ hardware: Hardware, _ id: AppID) throws(AppsError) {
    guard apps[id.number].grants.remove(hardware) != nil else { throw AppsError(.notHeld(id, hardware.name)) }
  }
}
