internal import Glibc

/// Follows the property `_NET_ACTIVE_WINDOW` of a display, which its window manager keeps.
///
/// The window's process is what the server knows by the kernel (X-Resource 1.2), else what the window says,
/// unless it says that it is of another machine.
package struct X11Front: DisplaySource {
  let display: X11Display

  package var name: String { display.name }
  package var folder: String { X11Display.folder }
  package func socket() -> String? { SystemFile.exists(display.path) ? display.path : nil }
  package func makeSession() -> any FrontSession {
    X11Session(screen: display.screen, cookie: X11Authority.cookie(of: display), host: Self.hostName())
  }

  static func hostName() -> [UInt8] {
    var name = [CChar](repeating: 0, count: 256)
    gethostname(&name, name.count - 1)
    return name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:))
  }
}

struct X11Session: FrontSession {
  private let screen: Int
  private let host: [UInt8]
  private var output: [UInt8]
  private var input: [UInt8] = []
  /// Of the last request.
  private var sequence: UInt16 = 0
  private var asked: [UInt16: Question] = [:]
  private var isSetUp = false
  private var root: UInt32 = 0
  private var activeAtom: UInt32 = 0
  private var processAtom: UInt32 = 0
  /// Its code of requests; 0: it is not there, or too old.
  private var resourceCode: UInt8 = 0
  /// The window that is active as far as is known.
  private var window: UInt32?
  private var claimed: Int32?

  private enum Question {
    case atom(isActive: Bool)
    case resource
    case resourceVersion(UInt8)
    case active
    case process(UInt32)
    case claim(UInt32)
    case machine(UInt32)
    case follow
  }

  init(screen: Int, cookie: X11Authority.Cookie?, host: [UInt8]) {
    self.screen = screen
    self.host = host
    output = X11Request.setup(cookie)
  }

  mutating func takeOutput() -> [UInt8] {
    defer { output = [] }
    return output
  }

  private mutating func ask(_ bytes: [UInt8], _ question: Question) {
    sequence &+= 1
    asked[sequence] = question
    output += bytes
  }

  mutating func receive(_ bytes: [UInt8]) throws(FrontError) -> [FrontReport] {
    input += bytes
    var rest = input[...]
    var reports: [FrontReport] = []
    while let message = try X11Message.next(of: &rest, isSetUp: isSetUp) {
      switch message {
      case .accepted(let roots):
        guard screen < roots.count else { throw FrontError(.refused("it has no screen \(screen)")) }
        (isSetUp, root) = (true, roots[screen])
        ask(X11Request.internAtom(X11Request.activeWindow), .atom(isActive: true))
        ask(X11Request.internAtom(X11Request.windowProcess), .atom(isActive: false))
        ask(X11Request.queryExtension(X11Request.resource), .resource)
      case .reply(let sequence, let reply):
        if let question = asked.removeValue(forKey: sequence) { answer(question, reply, &reports) }
      case .error(let sequence, _):
        // A window that is gone; or no such request, which leaves what is known without it.
        if let question = asked.removeValue(forKey: sequence) { answer(question, nil, &reports) }
      case .propertyChanged(let window, let atom):
        if window == root, atom == activeAtom { askActive() }
      case .event: break
      }
    }
    input = Array(rest)
    return reports
  }

  private mutating func askActive() { ask(X11Request.property(activeAtom, of: root, words: 1), .active) }

  /// - Parameter reply: `nil`: the server has refused.
  private mutating func answer(_ question: Question, _ reply: [UInt8]?, _ reports: inout [FrontReport]) {
    switch question {
    case .atom(isActive: true): activeAtom = reply.map { ByteReader($0).four(8) } ?? 0
    case .atom(isActive: false): processAtom = reply.map { ByteReader($0).four(8) } ?? 0
    case .resource:
      let reader = ByteReader(reply ?? [])
      guard reader.byte(8) != 0 else { return begin(&reports) }
      ask(X11Request.resourceVersion(reader.byte(9)), .resourceVersion(reader.byte(9)))
    case .resourceVersion(let code):
      let reader = ByteReader(reply ?? [])
      if (reader.two(8), reader.two(10)) >= (1, 2) { resourceCode = code }
      begin(&reports)
    case .active:
      let found = reply.flatMap { X11Message.value(in: $0, width: 32) }.map { ByteReader($0).four(0) } ?? 0
      guard found != window else { return }
      window = found
      guard found != 0 else { return reports.append(.focus(nil)) }
      if resourceCode != 0 {
        ask(X11Request.processes(resourceCode, of: found), .process(found))
      } else {
        askClaim(of: found)
      }
    case .process(let asked):
      guard asked == window else { return }  // another one is active by now
      let found = reply.map(X11Message.processes) ?? []
      if let pid = found.first { reports.append(.focus(pid)) } else { askClaim(of: asked) }
    case .claim(let asked):
      let value = reply.flatMap { X11Message.value(in: $0, width: 32) }.map { ByteReader($0).four(0) }
      claimed = value.flatMap { Int32(exactly: $0) }.flatMap { $0 > 0 ? $0 : nil }
      ask(X11Request.property(X11Request.machineAtom, of: asked, words: 64), .machine(asked))
    case .machine(let asked):
      guard asked == window else { return }
      let machine = reply.flatMap { X11Message.value(in: $0, width: 8) }
      reports.append(.focus(machine.map { Array($0) == host } == false ? nil : claimed))
    case .follow: break
    }
  }

  private mutating func askClaim(of window: UInt32) {
    ask(X11Request.property(processAtom, of: window, words: 1), .claim(window))
  }

  /// What is needed is known: follows the focus. First it is told of changes, then it looks.
  private mutating func begin(_ reports: inout [FrontReport]) {
    // It has no answer but an error.
    ask(X11Request.followProperties(of: root), .follow)
    askActive()
    reports.append(.ready)
  }
}
