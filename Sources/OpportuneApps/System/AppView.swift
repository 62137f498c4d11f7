/// What can be read of an app, at one moment.
public struct AppView: Sendable {
  /// Whose.
  public let id: AppID
  /// As it was registered, with the user's settings.
  public let manifest: Manifest
  /// Where the lifecycle has it.
  public let state: LifecycleState
  /// What its state takes from it.
  public let restrictions: Restrictions
  /// Since when it is in this state.
  public let since: Moment
  /// When it was in front last; `nil`: it never was.
  public let lastUsed: Moment?
  /// Begun and not ended, the oldest first.
  public let openTasks: [TaskID]
  /// What it has locked.
  public let locks: [SharedResource]
  /// Hardware that it was given and has not released.
  public let grants: Set<Hardware>
  /// Its bytes in main memory, as last said.
  public let footprint: UInt64
  /// Broken best-practice rules and how often.
  public let brokenRules: [BestPractice: Int]
  /// Asked for and not returned from; the first one runs.
  public let callbacks: [Callback]
}
