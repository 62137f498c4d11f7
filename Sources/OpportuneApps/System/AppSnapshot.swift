/// Where an app is, and what keeps it there: what the broker of memory goes by.
package struct AppSnapshot: Sendable, Hashable {
  package let state: LifecycleState
  /// What it does under the Audio service. (R-MEM-11)
  package let audio: AudioActivity?
  /// It follows the location in background. (R-MEM-12)
  package let isTracking: Bool
}

extension AppSystem {
  /// `nil` for an app that is not registered.
  package func snapshot(of id: AppID) -> AppSnapshot? {
    guard apps.indices.contains(id.number) else { return nil }
    let app = apps[id.number]
    return AppSnapshot(state: app.state, audio: audioService(app), isTracking: app.isTracking)
  }
}
