import Foundation
internal import Glibc

/// Follows the focus of sway by its IPC: the process of each window is part of what it tells.
///
/// i3 speaks the same protocol, and knows no processes: it is followed as a window manager of X.
package struct SwayFront: DisplaySource {
  /// The socket that was named; of another sway, which comes later, the name differs by its process.
  let path: String
  /// Whether the newest socket of this user's sways in the same folder does as well.
  let isOneOfMany: Bool

  init(path: String) {
    self.path = path
    isOneOfMany = Self.process(in: path.split(separator: "/").last.map(String.init) ?? "") != nil
  }

  /// Any sway of this user's.
  init(runtimeFolder: String) {
    path = runtimeFolder + "/" + Self.start
    isOneOfMany = true
  }

  package var name: String { "sway" }
  package var folder: String {
    path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
  }
  package func makeSession() -> any FrontSession { SwaySession() }

  private static var start: String { "sway-ipc.\(geteuid())." }

  package func socket() -> String? {
    if SystemFile.exists(path) { return path }
    guard isOneOfMany else { return nil }
    let living = SystemFile.names(in: folder).compactMap { name -> (name: String, made: Int)? in
      var status = stat()
      guard let pid = Self.process(in: name), kill(pid, 0) == 0 || errno == EPERM,
        stat(folder + "/" + name, &status) == 0
      else { return nil }
      return (name, status.st_mtim.tv_sec)
    }
    return living.max { ($0.made, $0.name) < ($1.made, $1.name) }.map { folder + "/" + $0.name }
  }

  /// The process in a name such as `sway-ipc.1000.4711.sock`; `nil` where it is none of this user's.
  static func process(in name: String) -> pid_t? {
    let end = ".sock"
    guard name.hasPrefix(start), name.hasSuffix(end), name.utf8.count > start.utf8.count + end.utf8.count
    else { return nil }
    return pid_t(name.dropFirst(start.count).dropLast(end.count)).flatMap { $0 > 0 ? $0 : nil }
  }
}

struct SwaySession: FrontSession {
  private static let magic = Array("i3-ipc".utf8)
  private static let header = 14
  /// The longest message that is taken: a tree of thousands of windows.
  static let longest = 16 << 20
  private static let subscribe: UInt32 = 2
  private static let tree: UInt32 = 4
  private static let workspaceEvent: UInt32 = 0x8000_0000
  private static let windowEvent: UInt32 = 0x8000_0003

  private var output: [UInt8]
  private var input: [UInt8] = []
  /// How many answers are to come; all but the last are out of date by then.
  private var treesAsked = 0
  /// Whose windows were shown when that was last told.
  private var shown: Set<pid_t>?

  init() {
    output = Self.message(Self.subscribe, #"["window","workspace"]"#)
  }

  private static func message(_ kind: UInt32, _ text: String) -> [UInt8] {
    var out = ByteWriter()
    out.all(magic)
    out.four(UInt32(clamping: text.utf8.count))
    out.four(kind)
    out.all(text.utf8)
    return out.bytes
  }

  mutating func takeOutput() -> [UInt8] {
    defer { output = [] }
    return output
  }

  mutating func receive(_ bytes: [UInt8]) throws(FrontError) -> [FrontReport] {
    input += bytes
    var reports: [FrontReport] = []
    var rest = input[...]
    while let (kind, body) = try Self.next(of: &rest) { try take(kind, body, &reports) }
    input = Array(rest)
    return reports
  }

  /// Takes the next message off the bytes; `nil` where it is not there as a whole yet.
  static func next(of bytes: inout ArraySlice<UInt8>) throws(FrontError) -> (kind: UInt32, body: Data)? {
    guard bytes.count >= header else { return nil }
    let reader = ByteReader(bytes)
    guard bytes.prefix(magic.count).elementsEqual(magic) else {
      throw FrontError(.malformed("what is no message of its IPC"))
    }
    let length = reader.four(6)
    guard length <= longest else {
      throw FrontError(.malformed("a message of \(length) bytes: expected at most \(longest)"))
    }
    guard bytes.count >= header + Int(length) else { return nil }
    bytes = bytes.dropFirst(header + Int(length))
    return (reader.four(10), Data(reader.part(header, Int(length))))
  }

  static var treeRequest: [UInt8] { message(tree, "") }

  /// The processes whose windows are shown, in the answer to ``treeRequest``.
  static func visible(in body: Data) throws(FrontError) -> Set<pid_t> {
    visible(in: try read(Node.self, body))
  }

  private static func visible(in root: Node) -> Set<pid_t> {
    var result: Set<pid_t> = []
    var nodes = [root]
    while let node = nodes.popLast() {
      if node.visible == true, let pid = node.process { result.insert(pid) }
      nodes += (node.nodes ?? []) + (node.floating ?? [])
    }
    return result
  }

  private mutating func take(_ kind: UInt32, _ body: Data, _ reports: inout [FrontReport]) throws(FrontError)
  {
    switch kind {
    case Self.subscribe:
      guard try Self.read(Answer.self, body).success else {
        throw FrontError(.refused("it tells of no windows"))
      }
      reports.append(.ready)
      askTree()
    case Self.tree:
      guard treesAsked > 0 else { throw FrontError(.malformed("an answer to nothing")) }
      treesAsked -= 1
      // Something has changed since it was asked for: the next one tells.
      guard treesAsked == 0 else { break }
      let root = try Self.read(Node.self, body)
      reports.append(.focus(root.focusedProcess))
      let visible = Self.visible(in: root)
      if visible != shown { reports.append(.shown(visible)) }
      shown = visible
    case Self.windowEvent:
      let event = try Self.read(Event.self, body)
      switch event.change {
      case "focus":
        // What a tree says that was asked for before may be older.
        if treesAsked > 0 { askTree() } else { reports.append(.focus(event.container?.process)) }
      // Nothing may have the focus afterwards, and others may be shown.
      case "close", "move", "floating", "fullscreen_mode": askTree()
      default: break
      }
    case Self.workspaceEvent:
      // An empty one has no window to tell of.
      if ["focus", "move"].contains(try Self.read(Event.self, body).change) { askTree() }
    default: break
    }
  }

  private mutating func askTree() {
    treesAsked += 1
    output += Self.treeRequest
  }

  private static func read<Value: Decodable>(_ type: Value.Type, _ body: Data) throws(FrontError) -> Value {
    do { return try JSONDecoder().decode(type, from: body) } catch {
      throw FrontError(.malformed("JSON that is not as expected"))
    }
  }

  private struct Answer: Decodable { let success: Bool }

  private struct Event: Decodable {
    let change: String
    let container: Node?
  }

  /// A part of the screen: a window, or what holds some.
  private struct Node: Decodable {
    let pid: Int32?
    let focused: Bool?
    let visible: Bool?
    let nodes: [Node]?
    let floating: [Node]?

    enum CodingKeys: String, CodingKey {
      case pid, focused, visible, nodes
      case floating = "floating_nodes"
    }

    var process: Int32? { pid.flatMap { $0 > 0 ? $0 : nil } }

    var focusedProcess: Int32? {
      if focused == true { return process }
      for node in (nodes ?? []) + (floating ?? []) {
        if let found = node.focusedProcess { return found }
      }
      return nil
    }
  }
}
