/// The state of an app, and what keeps it there: the input of the memory broker.
package struct AppSnapshot: Sendable, Hashable {
  package let state: LifecycleState
  /// Its activity under the Audio service. (R-MEM-11)
  package let audio: AudioActivity?
  /// Whether it tracks the location in the background. (R-MEM-12)
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
