internal import Glibc

/// What the host follows, as its user chooses: `auto`, `none`, `x11`, `x11=:0`, `sway`,
/// `sway=/path/of/socket`, `terminal`, `terminal=/dev/pts/0`.
package struct FrontChoice: Sendable {
  /// What tells who is in front; `nil`: commands alone.
  package let source: (any FrontSource)?
  /// The X display that is looked at after a program was frozen, since a frozen client may hold it.
  package let display: X11Display?
  /// The sway of which nothing is suspended that it shows.
  package let sway: SwayFront?
  /// Why nothing is followed, for people.
  package let note: String?

  /// - Throws: ``ProcessHostError``: `value`.
  package init(_ text: String, environment: [String: String]) throws(ProcessHostError) {
    let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    let place = parts.count > 1 ? String(parts[1]) : nil
    let own = environment["DISPLAY"].flatMap { $0.isEmpty ? nil : $0 }
    let ownDisplay = own.flatMap { X11Display($0) }
    let ownSway = environment["SWAYSOCK"].flatMap { $0.hasPrefix("/") ? SwayFront(path: $0) : nil }
    func wrong(_ expected: String) -> ProcessHostError { ProcessHostError(.value("--front", text, expected)) }
    switch (parts.first.map(String.init) ?? "", place) {
    case ("none", nil): (source, display, note) = (nil, nil, nil)
    case ("auto", nil):
      if let ownSway {
        (source, display, note) = (ownSway, ownDisplay, nil)
      } else if let ownDisplay {
        (source, display, note) = (X11Front(display: ownDisplay), ownDisplay, nil)
      } else {
        (source, display) = (nil, nil)
        note =
          (own.map { "DISPLAY is '\($0)', which is none of this machine" }
            ?? "neither SWAYSOCK nor DISPLAY is set") + ": who is in front is told by command alone"
      }
    case ("x11", _):
      guard let name = place ?? own else { throw wrong("DISPLAY is not set: expected as x11=:0") }
      guard let display = X11Display(name) else {
        throw wrong("'\(name)' is no display of this machine: expected as :0 or :0.1")
      }
      (source, self.display, note) = (X11Front(display: display), display, nil)
    case ("sway", let path?):
      guard path.hasPrefix("/") else { throw wrong("expected the absolute path of sway's socket") }
      (source, display, note) = (SwayFront(path: path), ownDisplay, nil)
    case ("sway", nil):
      if let ownSway {
        source = ownSway
      } else if let folder = environment["XDG_RUNTIME_DIR"], folder.hasPrefix("/") {
        source = SwayFront(runtimeFolder: folder)
      } else {
        throw wrong("neither SWAYSOCK nor XDG_RUNTIME_DIR is set: expected sway=PATH")
      }
      (display, note) = (ownDisplay, nil)
    case ("terminal", _):
      guard place.map(TerminalFront.isTerminal) ?? true else {
        throw wrong("expected a terminal's device below /dev, as terminal=/dev/tty1")
      }
      // Whoever has become root by sudo types at a terminal of its own.
      let sudo = geteuid() == 0 ? environment["SUDO_UID"].flatMap { uid_t($0) } : nil
      let users = Set([geteuid()] + (sudo.map { [$0] } ?? []))
      (source, display, note) = (TerminalFront(path: place, users: users), ownDisplay, nil)
    default:
      throw wrong("expected auto, none, x11, x11=:0, sway, sway=PATH, terminal or terminal=PATH")
    }
    // Who is in front may be told by another.
    sway = source as? SwayFront ?? (source is TerminalFront ? ownSway : nil)
  }
}

extension FrontChoice {
  /// What a look at the source finds.
  package enum Look: Sendable, Hashable {
    /// Nothing is to be followed; why, for people.
    case nothing(String)
    case answers(String)
    case doesNotAnswer(String)
  }

  /// Connects to the display, and waits for its answer; blocks at most for the limit.
  package func look(within limit: Duration) -> Look {
    if let sway = source as? SwayFront {
      let isThere = SwayProbe.visibleProcesses(sway, within: limit) != nil
      return isThere ? .answers(sway.name) : .doesNotAnswer(sway.name)
    }
    if let terminal = source as? TerminalFront {
      return terminal.isThere ? .answers(terminal.name) : .doesNotAnswer(terminal.name)
    }
    guard let source, let display else { return .nothing(note ?? "commands tell who is in front") }
    switch DisplayProbe.open(display, within: limit) {
    case .open: return .answers(source.name)
    case .absent: return .doesNotAnswer(source.name)
    case .silent: return .doesNotAnswer(source.name)
    }
  }
}
