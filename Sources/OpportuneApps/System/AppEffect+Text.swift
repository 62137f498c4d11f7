extension AppEffect: CustomStringConvertible {
  /// One line, identical for equal effects, so that logs can be compared.
  public var description: String {
    switch self {
    case .lifecycle(let effect): effect.name
    case .launched(let reason): "launched for \(reason.rawValue)"
    case .moved(let from, let to, let event): "\(from.name) -> \(to.name) by \(event.name)"
    case .ignored(let event, let why): "ignored \(event.name): \(why)"
    case .restrict(let restrictions): "restrict \(restrictions.line)"
    case .taskBegan(let task): "\(task) began"
    case .taskRefused(let reason): "task refused: \(reason.rawValue)"
    case .expire(let task): "\(task) expires"
    case .taskEnded(let task): "\(task) ended"
    case .pauseAudio: "pause audio"
    case .resumeAudio: "resume audio"
    case .deliver(let message): "deliver \(message.origin.rawValue) \(message.kind)"
    case .coalesced(let changes): "changes " + changes.map { "\($0.kind)=\($0.value)" }.joined(separator: " ")
    case .notify(let notification): "notify \(notification.body)"
    case .ask(let prompt, let question): "ask \(prompt): \(question.line)"
    case .data(let bytes): "data \(bytes)"
    case .heartbeat: "heartbeat"
    case .fetch: "fetch"
    case .locationEvent: "location event"
    case .completion: "completion"
    case .granted(let hardware): "granted \(hardware)"
    case .denied(let hardware): "denied \(hardware)"
    case .revoked(let hardware): "revoked \(hardware)"
    case .lockGranted(let resource): "locked \(resource)"
    case .lockRevoked(let resource): "lock revoked: \(resource)"
    case .diagnose(let diagnosis): "diagnosis: \(diagnosis)"
    }
  }
}

extension Restrictions {
  /// One line of words.
  package var line: String {
    let denied = deniedHardware.sorted().map(\.name).joined(separator: ",")
    return "cpu=\(cpu.rawValue)\(mayRunRealTime ? "+realtime" : "") storage=\(storage.rawValue) "
      + "network=\(network.rawValue) draw=\(mayDraw ? "yes" : "no") denied=\(denied.isEmpty ? "none" : denied)"
  }
}

extension Prompt {
  var line: String {
    switch self {
    case .message(let message): "message \(message.kind)"
    case .call(let caller): "call of \(caller)"
    case .text(let text): text
    }
  }
}

extension AppDiagnosis: CustomStringConvertible {
  public var description: String {
    switch self {
    case .callbackOverrun(let callback): "\(callback.rawValue) did not return in time"
    case .sliceOverrun: "a slice went on past the end of the app's time"
    case .fetchOverrun: "the fetch did not end in time"
    case .taskNeverEnded(let task): "\(task) was never ended"
    case .idleTask(let task): "\(task) is held and nothing is done"
    case .heldLock(let resource): "holds \(resource) as it is to be suspended"
    case .gpuInBackground: "used the GPU in background"
    case .unapprovedLibrary(let file): "real-time code from \(file), which is not approved"
    case .rule(let rule): "breaks \(rule.id): \(rule.text); \(rule.remedy)"
    case .unendingSlice: "a slice of the terminated app does not end"
    case .drawingPagesStay(let reason): "the pages of a drawing buffer stay: \(reason)"
    }
  }
}
