import Foundation
import OpportuneApps
import OpportuneBase
import OpportuneLocation

/// A ``LocationUserInterface`` of lines: it prints to one descriptor and reads answers from another.
///
/// Questions come one after the other. What was typed before a question came is no answer to it, if a person
/// types: the question that it was meant for may have been another. After three lines that are no answer a
/// question counts as not answered. Nothing that it prints holds a place. Safe to use from any
/// thread; the descriptors must stay open as long as it is used.
final class TerminalLocationInterface: LocationUserInterface {
  private let lines: AnswerLines
  private let output: Int32
  private let patience: Duration
  /// A program that answers may never come to an end, and never say what is expected.
  static let mostMisunderstood = 3
  /// Questions wait here for their turn, off the threads of tasks, since reading blocks.
  private let turns = DispatchQueue(label: "location questions")
  private let banners: ReturnBanners

  /// - Parameters:
  ///   - input: where answers come from, a line each.
  ///   - output: where it prints.
  ///   - patience: how long it waits for an answer to a question.
  init(input: Int32, output: Int32, patience: Duration) {
    lines = AnswerLines(input)
    self.output = output
    self.patience = patience
    banners = ReturnBanners(lines, turns) { _ = writeAll($0, to: output) }
  }

  func ask(_ dialog: LocationDialog) async -> DialogAnswer {
    let yes = dialog.kind == .authorization ? "Allow" : "Continue"
    let text = [dialog.systemText, dialog.appText].filter { !$0.isEmpty }
    return switch await choose(text, "Don't Allow", yes) {
    case 0?: .deny
    case 1?: .allow
    default: .failed
    }
  }

  func alert(_ alert: LocationAlert) async -> AlertAnswer? {
    let text = ["\(alert.app): \(alert.text)", alert.systemText]
    return switch await choose(text, "Close", "Open") {
    case 0?: .close
    case 1?: .open
    default: nil
    }
  }

  func show(_ indicator: LocationIndicator, app: String) async {
    let sign =
      switch indicator {
      case .none: "- \(app) gets no location"
      case .hollow: "○ \(app) waits for crossings"
      case .solid: "● \(app) gets locations"
      }
    say(sign.printable + "\n")
  }

  func offerReturn(to app: String) async -> Bool { await banners.offer(app.printable) }

  /// - Returns: which of the two buttons; `nil`: none.
  private func choose(_ text: [String], _ first: String, _ second: String) async -> Int? {
    let buttons = [first, second]
    let withdrawal = Withdrawal()
    banners.makeWay()
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        turns.async {
          let choice = self.choose(text, buttons, until: withdrawal)
          self.banners.goOn()
          continuation.resume(returning: choice)
        }
      }
    } onCancel: {
      withdrawal.happen()
    }
  }

  private func choose(_ text: [String], _ buttons: [String], until withdrawal: Withdrawal) -> Int? {
    guard !withdrawal.hasHappened else { return nil }
    lines.forgetWhatWasTyped()
    say("\n" + text.asLines)
    let deadline = ContinuousClock.now + patience
    var misunderstood = 0
    while misunderstood < Self.mostMisunderstood {
      say("  1  \(buttons[0])\n  2  \(buttons[1])\n> ")
      switch lines.next(before: deadline, unless: withdrawal) {
      case .line(let line):
        let said = line.trimmingCharacters(in: .whitespaces).lowercased()
        if let button = buttons.indices.first(where: {
          said == "\($0 + 1)" || said == buttons[$0].lowercased()
        }) {
          return button
        }
        say("Expected 1 or 2.\n")
        misunderstood += 1
      case .ended, .late:
        say("Not answered.\n")
        return nil
      case .withdrawn:
        say("No longer asked.\n")
        return nil
      }
    }
    say("None of \(misunderstood) lines was an answer: it counts as not answered, and nothing is allowed.\n")
    return nil
  }

  /// Where nobody reads, nobody answers, which is what counts.
  private func say(_ text: String) { _ = writeAll(text, to: output) }
}
