extension Lifecycle {
  /// The table as Markdown.
  package static func markdownTable() -> String {
    var lines = ["| state | event | if | then | effects |", "|---|---|---|---|---|"]
    for rule in rules {
      let (next, effects): (String, String) =
        switch rule.outcome {
        case .move(let next, let effects):
          ("**\(next.name)**", effects.map(\.name).joined(separator: ", "))
        case .ignore(let reason): ("ignored", reason)
        case .refuse(let reason): ("error `\(reason.rawValue)`", reason.text)
        }
      lines.append(
        "| \(rule.state.name) | \(rule.event.name) | \(rule.condition.name) | \(next) | \(effects) |")
    }
    return lines.joined(separator: "\n") + "\n"
  }

  /// The moves as a Mermaid state diagram. Moves of an event with and without a guard are one arrow each.
  package static func mermaid() -> String {
    var lines = ["stateDiagram-v2", "  [*] --> notRunning"]
    for state in LifecycleState.allCases where state.name != state.rawName {
      lines.append("  \(state.rawName): \(state.name)")
    }
    for from in LifecycleState.allCases {
      for to in LifecycleState.allCases where to != from {
        var labels: [String] = []
        for rule in rules where rule.state == from {
          guard case .move(to, _) = rule.outcome else { continue }
          let label =
            rule.condition.name.isEmpty ? rule.event.name : "\(rule.event.name) [\(rule.condition.name)]"
          labels.append(label)
        }
        if !labels.isEmpty {
          lines.append("  \(from.rawName) --> \(to.rawName): \(labels.joined(separator: ", "))")
        }
      }
    }
    return lines.joined(separator: "\n") + "\n"
  }

  /// What the effects are to apps of each kind.
  private static let effectsTable = """
    ## The effects, by what an app is

    | effect | inside a program | a process that [cooperates](host.md#programs-that-cooperate) | a process that does not |
    |---|---|---|---|
    | didFinishLaunching | callback | asked when it joins | – |
    | willEnterForeground, didBecomeActive, willResignActive, didEnterBackground | callback | asked, each within a grace | – |
    | willTerminate | callback | asked, then `SIGTERM`, then the kill | `SIGTERM`, then the kill |
    | stop execution | its slices end | `taskExpires`, `willSuspend`, then its processes are stopped | its processes are stopped |
    | resume execution | its jobs go on | its processes go on, `didResume` | its processes go on |
    | warn of memory | callback | asked | – |
    | deliver a message | callback | `didReceiveMessage`, where it was stopped after `didResume`; then it is suspended again | – |
    | take back | regions, grants, requests | killed, unless it has its grace | killed, unless it has its grace |
    | save state, restore state | written to the store, given back | paged out, read again as it is touched | the same |
    | take snapshot, delete state | yes | – | – |

    """

  /// `docs/lifecycle.md`.
  package static func page() -> String {
    """
    # The lifecycle table

    Written by `opportune states --markdown`; a test compares it. Every pair of state and event is decided: a move, ignored with a
    reason, or a typed error. The first line of a pair whose condition holds is the one.

    ```mermaid
    \(mermaid())```

    \(markdownTable())
    \(effectsTable)
    """
  }
}

extension LifecycleState {
  /// One word, for diagrams and JSON.
  package var rawName: String {
    switch self {
    case .notRunning: "notRunning"
    case .active: "active"
    case .inactive: "inactive"
    case .background: "background"
    case .stopping: "stopping"
    case .suspended: "suspended"
    case .hibernated: "hibernated"
    case .terminated: "terminated"
    }
  }
}
