import OpportuneApps

extension LocationSystem {
  /// Why an app counts as in use now; empty: it does not. (R-AUTH-03)
  public func inUse(_ id: AppID) -> Set<InUseFactor> {
    guard let app = apps[id] else { return [] }
    var factors: Set<InUseFactor> = []
    if app.state.isForeground { factors.insert(.visible) }
    if app.isInvokedByVoice { factors.insert(.voice) }
    if app.state.mayExecute, policy.inUseClasses.contains(app.appClass) { factors.insert(.appClass) }
    // It can have begun to track only while it was in use by another.
    if app.state.mayExecute, app.tracks > 0, isOnlyForUse(app) { factors.insert(.quickReturn) }
    return factors.intersection(policy.inUseFactors)
  }

  /// What the user has said of an app.
  public func authorization(of id: AppID) -> AuthorizationStatus? { apps[id]?.status }

  /// Whether an app may be given what a service finds, at this instant. (R-AUTH-12)
  public func mayReceive(_ id: AppID, _ service: LocationService) -> Bool {
    guard isEnabled, case .allowed(let type)? = apps[id]?.status else { return false }
    return (inUse(id).isEmpty ? type.whenNotInUse : type.whenInUse).contains(service)
  }

  /// Whether a service may be run for the user of an app, who may then bring it into use. (R-AUTH-13)
  public func mayMonitor(_ id: AppID, _ service: LocationService) -> Bool {
    guard isEnabled, case .allowed(let type)? = apps[id]?.status else { return false }
    return type.whenInUse.contains(service) || type.whenNotInUse.contains(service)
  }

  /// An app in the settings pane. (R-AUTH-05, R-AUTH-10)
  public struct Setting: Sendable, Hashable {
    /// Whose.
    public let app: AppID
    /// The app's, of its manifest.
    public let identifier: String
    /// What the user has chosen.
    public let status: AuthorizationStatus
  }

  /// The settings pane: the apps that say in their manifest what they need locations for.
  public var settings: [Setting] {
    apps.filter { !$0.value.manifest.usageDescriptions.isEmpty }
      .map { Setting(app: $0.key, identifier: $0.value.manifest.identifier, status: $0.value.status) }
      .sorted { $0.app < $1.app }
  }

  mutating func requestAuthorization(_ id: AppID, _ asked: AuthorizationType?) {
    let type = asked ?? policy.defaultType
    guard let app = apps[id] else { return }
    guard let text = app.manifest.usageDescriptions[type.usageKey] else {
      return effects.append(.refused(id, .missingKey(type.usageKey)))
    }
    guard isEnabled else { return effects.append(.refused(id, .disabled)) }
    if app.status == .allowed(type) || (policy.asksOnce && app.answered.contains(type)) {
      return effects.append(.authorization(id, app.status))
    }
    guard !prompts.values.contains(where: { $0.app == id }) else {
      return effects.append(.refused(id, .alreadyAsked))
    }
    ask(id, .authorization, type, type.dialog, text)
  }

  private mutating func ask(
    _ id: AppID, _ kind: LocationDialog.Kind, _ type: AuthorizationType, _ generic: String, _ text: String
  ) {
    guard let app = apps[id] else { return }
    let prompt = LocationPromptID(number: nextNumber())
    prompts[prompt] = OpenDialog(app: id, kind: kind, type: type, ends: policy.dialogTime.map { now + $0 })
    let parts = generic.split(separator: "%@", omittingEmptySubsequences: false)
    let dialog = LocationDialog(
      kind: kind, type: type, systemText: parts.joined(separator: app.manifest.identifier), appText: text)
    effects.append(.ask(prompt, id, dialog))
  }

  mutating func answer(_ id: LocationPromptID, _ answer: DialogAnswer) throws(LocationSystemError) {
    guard let prompt = prompts.removeValue(forKey: id) else { throw LocationSystemError(.unknownPrompt(id)) }
    switch (answer, prompt.kind) {
    case (.failed, .authorization): break
    // It will be shown again.
    case (.failed, .reminder): apps[prompt.app]?.wasReminded = false
    case (.allow, .reminder): break
    case (.allow, .authorization):
      apps[prompt.app]?.answered.insert(prompt.type)
      set(prompt.app, .allowed(prompt.type))
    case (.deny, .authorization):
      apps[prompt.app]?.answered.insert(prompt.type)
      // Denying a wider permission does not revoke the one that was given before.
      if case .allowed? = apps[prompt.app]?.status { break }
      set(prompt.app, .denied)
    case (.deny, .reminder): set(prompt.app, .denied)
    }
  }

  mutating func set(_ id: AppID, _ status: AuthorizationStatus) {
    guard apps[id]?.status != status else { return }
    apps[id]?.status = status
    apps[id]?.outOfUseSince = nil
    apps[id]?.wasReminded = false
    effects.append(.authorization(id, status))
  }

  /// The user has chosen in the settings pane; an open question about it is answered by that.
  mutating func choose(_ id: AppID, _ status: AuthorizationStatus) {
    for (prompt, _) in prompts.filter({ $0.value.app == id }) {
      prompts[prompt] = nil
      effects.append(.dismiss(prompt))
    }
    set(id, status)
  }

  /// Reminds the user of an app that has got locations out of use for long. (R-AUTH-09)
  mutating func noteUse(_ id: AppID) {
    guard let reminder = policy.reminder, let app = apps[id], inUse(id).isEmpty, !app.wasReminded,
      case .allowed(let type) = app.status
    else { return }
    guard let since = app.outOfUseSince else {
      apps[id]?.outOfUseSince = now
      return
    }
    guard now - since >= reminder, !prompts.values.contains(where: { $0.app == id }) else { return }
    apps[id]?.wasReminded = true
    ask(
      id, .reminder, type,
      "\"%@\" has been using your location in the background. Do you want to allow this?",
      app.manifest.usageDescriptions[type.usageKey] ?? "")
  }
}
