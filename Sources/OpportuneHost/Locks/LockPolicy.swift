internal import OpportuneApps

/// What becomes of an app that is to be suspended and holds locks of files: others would wait for it for as
/// long as it is suspended.
package struct LockPolicy: Sendable, Hashable {
  package enum Answer: String, Sendable, Hashable, CaseIterable, Codable {
    /// It stays running.
    case refuse
    /// It is terminated instead, as apps that were told of this rule are.
    case terminate
    /// It is suspended all the same.
    case ignore
  }

  /// How long it goes on first, to let go.
  package var grace: Duration
  package var answer: Answer

  package init(grace: Duration = .seconds(1), answer: Answer = .refuse) {
    (self.grace, self.answer) = (grace, answer)
  }

  enum Decision: Hashable, Sendable {
    case suspend
    /// It goes on until then, and is looked at again.
    case wait(until: Moment, String)
    /// The reason.
    case refuse(String)
    case terminate(String)
  }

  /// - Parameters:
  ///   - held: what it holds now.
  ///   - askedAt: when it was to be suspended.
  func decide(_ held: [HeldLock], askedAt: Moment, now: Moment) -> Decision {
    // Those that keep somebody waiting first: they are why.
    let ordered = held.filter { !$0.waiters.isEmpty } + held.filter { $0.waiters.isEmpty }
    guard answer != .ignore, let first = ordered.first else { return .suspend }
    let reason = first.description + (held.count > 1 ? ", and \(held.count - 1) more" : "")
    let end = askedAt + grace
    if now < end { return .wait(until: end, reason) }
    switch answer {
    case .refuse: return .refuse(reason)
    case .terminate: return .terminate(reason)
    case .ignore: return .suspend
    }
  }
}
