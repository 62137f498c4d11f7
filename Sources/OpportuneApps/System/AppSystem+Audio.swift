/// Audio keeps its app in the background until it is paused. (R-AUD)
extension AppSystem {
  /// The state of an app's audio.
  package enum AudioState: Sendable, Hashable, CaseIterable { case none, playing, paused }

  /// What the system knows of an app's audio.
  package func audio(of id: AppID) -> AudioState {
    guard apps.indices.contains(id.number), apps[id.number].audio != nil else { return .none }
    return apps[id.number].isPaused ? .paused : .playing
  }

  mutating func audioBegan(_ activity: AudioActivity, _ id: AppID) throws(AppsError) {
    try requireExecuting(id)
    apps[id.number].audio = activity
    apps[id.number].isPaused = false
    refreshRestrictions(of: id)
    if apps[id.number].state == .background { arbitrateAudio(newest: id) }
  }

  mutating func audioPaused(_ id: AppID) throws(AppsError) {
    guard apps[id.number].audio != nil else { throw AppsError(.noAudio(id)) }
    pause(id, tells: false)
  }

  mutating func audioResumed(_ id: AppID) throws(AppsError) {
    guard apps[id.number].audio != nil else { throw AppsError(.noAudio(id)) }
    guard apps[id.number].isPaused else { return }
    let state = apps[id.number].state
    if !state.mayExecute {
      guard state != .notRunning, state != .terminated, apps[id.number].wakes.contains(.audio) else { return }
    }
    apps[id.number].isPaused = false  // first, so that audio keeps it there
    if !state.mayExecute { moveOn(id, .reanimate) }
    emit(.resumeAudio, id)
    refreshRestrictions(of: id)
    if apps[id.number].state == .background { arbitrateAudio(newest: id) }
    suspendUnlessHeld(id)
  }

  mutating func audioEnded(_ id: AppID) throws(AppsError) {
    guard apps[id.number].audio != nil else { throw AppsError(.noAudio(id)) }
    apps[id.number].audio = nil
    apps[id.number].isPaused = false
    refreshRestrictions(of: id)
    suspendUnlessHeld(id)
  }

  private mutating func pause(_ id: AppID, tells: Bool) {
    guard !apps[id.number].isPaused else { return }
    let kept = audioService(apps[id.number]) != nil && apps[id.number].state == .background
    apps[id.number].isPaused = true
    if tells { emit(.pauseAudio, id) }
    if kept, policy.audio.pause == .hibernate { apps[id.number].hibernatesWhenStopped = true }
    refreshRestrictions(of: id)
    suspendUnlessHeld(id)
  }

  /// Limits how many apps play in the background; those beyond the limit are paused. (R-AUD-03, R-AUD-04)
  mutating func arbitrateAudio(newest: AppID) {
    guard audioService(apps[newest.number]) != nil, !isFree(apps[newest.number]) else { return }
    let playing = apps.filter { $0.state == .background && audioService($0) != nil && $0.id != newest }
    guard playing.count + 1 > policy.audio.maximum else { return }
    let older = playing.min { ($0.since, $0.id) < ($1.since, $1.id) }
    switch policy.audio.gives {
    case .older where policy.audio.maximum > 0: if let older { pause(older.id, tells: true) }
    case .older, .newer: pause(newest, tells: true)
    }
  }

  /// Real-time threads in the background may execute approved code only. (R-AUD-07)
  mutating func realTimeCode(_ file: String, _ id: AppID) {
    guard let approved = policy.audio.approvedLibraries, !approved.contains(file) else { return }
    guard apps[id.number].state == .background else { return }
    emit(.diagnose(.unapprovedLibrary(file)), id)
    if apps[id.number].audio != nil { pause(id, tells: true) }
  }
}
