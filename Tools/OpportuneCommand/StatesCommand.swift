import ArgumentParser
import OpportuneApps
import OpportuneBase
import ToolSupport

struct StatesCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "states", abstract: "Prints the lifecycle: every state, event, condition and effect.",
    discussion: "Each pair of state and event is decided: a move, ignored with a reason, or a typed error.")

  enum Form: EnumerableFlag {
    case table, mermaid, markdown, rules, json

    static func help(for value: Form) -> ArgumentHelp? {
      switch value {
      case .table: "The table, for a terminal."
      case .mermaid: "The moves as a Mermaid state diagram."
      case .markdown: "The page docs/lifecycle.md."
      case .rules: "The best-practice rules and what shows that one was broken."
      case .json: "The table as JSON."
      }
    }
  }

  @Flag(exclusivity: .exclusive) var form: Form = .table
  @Option(help: "Only rows of this state, as in the table.") var state: String?

  func validate() throws {
    if let state, rows(of: state).isEmpty {
      let names = LifecycleState.allCases.map { "'\($0.name)'" }.joined(separator: ", ")
      throw ValidationError("'\(state)' is no state; expected one of \(names), or 'foreground'")
    }
    if state != nil, form != .table, form != .json {
      throw ValidationError("--state goes with the table and with --json")
    }
  }

  func run() throws {
    switch form {
    case .table: try StandardOutput.write(table())
    case .mermaid: try StandardOutput.write(Lifecycle.mermaid())
    case .markdown: try StandardOutput.write(Lifecycle.page())
    case .rules:
      try StandardOutput.write(
        BestPractice.allCases.map {
          "\($0.id)  \($0.text)\n           broken when: \($0.sign)\n           to keep it: \($0.remedy)\n"
        }.joined())
    case .json: try StandardOutput.write(json: try json())
    }
  }

  private func rows(of state: String?) -> [Lifecycle.Rule] {
    guard let state else { return Lifecycle.rules }
    return Lifecycle.rules.filter {
      $0.state.name == state || $0.state.rawName == state || $0.state.operational.rawValue == state
    }
  }

  private func table() -> String {
    var lines: [String] = []
    var last: LifecycleState?
    for rule in rows(of: state) {
      if rule.state != last { lines += (last == nil ? [] : [""]) + [rule.state.name] }
      last = rule.state
      let condition = rule.condition.name.isEmpty ? "" : " if \(rule.condition.name)"
      let what: String =
        switch rule.outcome {
        case .move(let next, let effects):
          "-> \(next.name)" + (effects.isEmpty ? "" : ": " + effects.map(\.name).joined(separator: ", "))
        case .ignore(let why): "ignored: \(why)"
        case .refuse(let reason): "error: \(reason.text)"
        }
      let name = rule.event.name + condition
      lines.append("  \(name)\(String(repeating: " ", count: max(1, 46 - name.count)))\(what)")
    }
    return lines.asLines
  }

  private func json() throws -> String {
    struct Row: Encodable {
      let state, event, condition, outcome: String, next: String?, effects: [String], reason: String?
    }
    let document = rows(of: state).map { rule in
      let (outcome, next, effects, reason): (String, LifecycleState?, [LifecycleEffect], String?) =
        switch rule.outcome {
        case .move(let next, let effects): ("move", next, effects, nil)
        case .ignore(let why): ("ignored", nil, [], why)
        case .refuse(let reason): ("error", nil, [], reason.rawValue)
        }
      return Row(
        state: rule.state.rawName, event: rule.event.name, condition: rule.condition.name, outcome: outcome,
        next: next?.rawName, effects: effects.map(\.name), reason: reason)
    }
    return try jsonText(of: document)
  }
}
