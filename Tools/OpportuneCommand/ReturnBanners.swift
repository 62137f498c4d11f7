import Dispatch
import Synchronization

/// The banners of a terminal: while no question is open, a line brings the user back to an app. (R-AUTH-23)
///
/// Listening takes a turn like a question, and ends for each question that comes. Safe to use from any
/// thread.
final class ReturnBanners: Sendable {
  private struct Banner: Sendable {
    let number: Int
    let app: String
    let selected: CheckedContinuation<Bool, Never>
  }

  private struct State {
    var open: [Banner] = []
    var numbers = 0
    /// Questions that are open or wait for their turn.
    var questions = 0
    /// Ends the listening; there as long as it goes on.
    var listening: Withdrawal?
    /// No line will come any more.
    var hasEnded = false
  }

  private let state = Mutex(State())
  private let lines: AnswerLines
  private let turns: DispatchQueue
  private let say: @Sendable (String) -> Void

  init(_ lines: AnswerLines, _ turns: DispatchQueue, say: @escaping @Sendable (String) -> Void) {
    self.lines = lines
    self.turns = turns
    self.say = say
  }

  /// - Returns: whether it was selected.
  func offer(_ app: String) async -> Bool {
    let number = state.withLock { state in
      state.numbers += 1
      return state.numbers
    }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOpen = state.withLock { state in
          guard !Task.isCancelled, !state.hasEnded else { return false }
          state.open.append(Banner(number: number, app: app, selected: continuation))
          return true
        }
        guard isOpen else { return continuation.resume(returning: false) }
        say("↩ \(app) is using your location: \"return\" brings it back\n")
        listen()
      }
    } onCancel: {
      takeAway(number)
    }
  }

  /// A question comes.
  func makeWay() {
    state.withLock { state in
      state.questions += 1
      state.listening?.happen()
    }
  }

  /// A question has gone.
  func goOn() {
    state.withLock { $0.questions -= 1 }
    listen()
  }

  private func takeAway(_ number: Int) {
    let banner: Banner? = state.withLock { state in
      guard let place = state.open.firstIndex(where: { $0.number == number }) else { return nil }
      let banner = state.open.remove(at: place)
      if state.open.isEmpty { state.listening?.happen() }
      return banner
    }
    guard let banner else { return }
    say("- no return to \(banner.app)\n")
    banner.selected.resume(returning: false)
  }

  private func listen() {
    turns.async {
      let withdrawal: Withdrawal? = self.state.withLock { state in
        guard !state.open.isEmpty, state.questions == 0, state.listening == nil else { return nil }
        state.listening = Withdrawal()
        return state.listening
      }
      guard let withdrawal else { return }
      while !withdrawal.hasHappened {
        switch self.lines.next(before: .now + .seconds(86_400), unless: withdrawal) {
        case .line(let line): self.take(line.lowercased().split(separator: " ").joined(separator: " "))
        case .ended: self.end()
        case .late, .withdrawn: continue
        }
      }
      self.state.withLock { $0.listening = nil }
      // One that came in the meantime.
      self.listenIfNeeded()
    }
  }

  private func listenIfNeeded() {
    if state.withLock({ !$0.open.isEmpty && $0.questions == 0 }) { listen() }
  }

  /// `return`: to the app that was left first; or `return` and its name.
  private func take(_ said: String) {
    let banner: Banner? = state.withLock { state in
      let place = state.open.firstIndex { said == "return" || said == "return \($0.app.lowercased())" }
      guard let place else { return nil }
      let banner = state.open.remove(at: place)
      if state.open.isEmpty { state.listening?.happen() }
      return banner
    }
    if let banner { banner.selected.resume(returning: true) } else { say("Expected return.\n") }
  }

  private func end() {
    let open = state.withLock { state in
      state.hasEnded = true
      state.listening?.happen()
      defer { state.open = [] }
      return state.open
    }
    for banner in open { banner.selected.resume(returning: false) }
  }
}
