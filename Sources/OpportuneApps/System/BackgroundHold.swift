/// What keeps an app in background: as long as there is any, it is neither suspended nor hibernated.
public enum BackgroundHold: Sendable, Hashable {
  /// The callback has not returned.
  case callback(Callback)
  /// There is external power, and ``PowerPolicy/fullOnMains`` is set.
  case fullPower
  /// ``AppsPolicy/switching`` or its manifest does not have it suspended.
  case neverSuspended
  /// It plays or records.
  case audio(AudioActivity)
  /// It tracks the location.
  case tracking
  /// Work that earns it time, by ``AppAction/workBegan(_:)``.
  case work(TaskKind)
  /// A task that it has not ended.
  case task(TaskID)
  /// Its time is up, and until then it may end what it has begun.
  case timeIsUp(until: Moment)
  /// The grace after it has left the foreground lasts until then.
  case grace(until: Moment)
  /// The event that has reanimated it lasts until it is handled, and until then at most.
  case event(until: Moment)
  /// It fetches, until then at most.
  case fetch(until: Moment)
}

extension BackgroundHold: CustomStringConvertible {
  public var description: String {
    switch self {
    case .callback(let callback): "\(callback.rawValue) has not returned"
    case .fullPower: "there is external power"
    case .neverSuspended: "its manifest or the policy does not have it suspended"
    case .audio(let activity): "audio: \(activity.rawValue)"
    case .tracking: "it tracks the location"
    case .work(let kind): "work: \(kind.rawValue)"
    case .task(let task): "\(task) is open"
    case .timeIsUp(let moment): "its time is up, and it may end what it has begun until \(moment)"
    case .grace(let moment): "grace until \(moment)"
    case .event(let moment): "an event is handled, until \(moment)"
    case .fetch(let moment): "it fetches, until \(moment)"
    }
  }
}

extension AppSystem {
  /// What ``isHeld(_:)`` goes by, for people.
  func holds(_ app: LifecycleRecord) -> [BackgroundHold] {
    guard app.state == .background else { return [] }
    var result = app.callbacks.map(BackgroundHold.callback)
    if isFree(app) { result.append(hasFullPower ? .fullPower : .neverSuspended) }
    if let activity = audioService(app) { result.append(.audio(activity)) }
    if tracksLocation(app) { result.append(.tracking) }
    result += app.tasks.map { .task($0.id) }
    if app.budgetEnd == nil || deadline(.tasks, of: app.id) != nil {
      result += TaskKind.allCases.filter { earnsTime($0, of: app) }.map(BackgroundHold.work)
    }
    if let moment = deadline(.handler, of: app.id) { result.append(.timeIsUp(until: moment)) }
    if let moment = deadline(.grace, of: app.id) { result.append(.grace(until: moment)) }
    if let moment = deadline(.event, of: app.id) { result.append(.event(until: moment)) }
    if let moment = deadline(.fetchLimit, of: app.id) { result.append(.fetch(until: moment)) }
    return result
  }
}
