import Foundation
internal import OpportuneApps

/// The methods of `org.opportune.Host1`: each is a request of the socket's protocol, with its keys as
/// arguments.
enum BusMethod: String, CaseIterable {
  case apps = "Apps"
  case start = "Start"
  case front = "Front"
  case suspend = "Suspend"
  case hibernate = "Hibernate"
  case resume = "Resume"
  case terminate = "Terminate"
  case keep = "Keep"
  case endKeeping = "EndKeep"
  case adopt = "Adopt"
  case warn = "Warn"
  case notify = "Notify"
  case reply = "Reply"

  /// Names and types, as D-Bus writes these.
  typealias Values = [(name: String, type: String)]

  var arguments: Values {
    switch self {
    case .apps: [("all", "b")]
    case .start: [("name", "s"), ("foreground", "b")]
    case .suspend, .hibernate: [("name", "s"), ("locks", "s"), ("again", "b")]
    case .front, .resume, .terminate, .endKeeping, .warn: [("name", "s")]
    case .keep: [("name", "s"), ("seconds", "d"), ("reason", "s")]
    case .adopt:
      [
        ("pid", "u"), ("name", "s"), ("foreground", "b"), ("derived", "b"), ("alone", "b"), ("restart", "s"),
      ]
    case .notify: [("name", "s"), ("kind", "s"), ("payload", "s")]
    case .reply: [("name", "s"), ("message", "t")]
    }
  }

  var results: Values {
    switch self {
    case .apps: [("apps", "aa{sv}")]
    case .start: [("pid", "u"), ("notes", "as")]
    case .suspend, .hibernate: [("again_s", "d"), ("notes", "as")]
    case .front, .resume, .terminate, .keep, .endKeeping, .warn: [("notes", "as")]
    case .adopt: [("name", "s"), ("mark", "s"), ("notes", "as")]
    case .notify: [("message", "t"), ("notes", "as")]
    case .reply: [("again_s", "d"), ("reply", "s"), ("notes", "as")]
    }
  }

  /// - Throws: ``BusRefusal``, ``BusFailure``.
  func request(_ signature: String, _ reader: BusReader) throws -> HostRequest {
    let expected = arguments.map(\.type).joined()
    guard signature == expected else {
      let names = arguments.map(\.name).joined(separator: ", ")
      throw BusRefusal.arguments(
        "\(rawValue) has arguments of the types '\(signature.prefix(64))': expected '\(expected)', \(names)")
    }
    switch self {
    case .apps:
      var request = HostRequest(.apps)
      request.all = try reader.flag()
      return request
    case .start:
      var request = HostRequest(.start, name: try reader.text())
      request.foreground = try reader.flag()
      return request
    case .front: return HostRequest(.front, name: try reader.text())
    case .suspend, .hibernate:
      var request = HostRequest(self == .suspend ? .suspend : .hibernate, name: try reader.text())
      request.locks = try Self.locks(try reader.text())
      request.again = try reader.flag()
      return request
    case .resume: return HostRequest(.resume, name: try reader.text())
    case .terminate: return HostRequest(.terminate, name: try reader.text())
    case .keep:
      var request = HostRequest(.keep, name: try reader.text())
      // D-Bus has no value for none.
      let seconds = try reader.number()
      request.seconds = seconds == 0 ? nil : seconds
      request.reason = try reader.text()
      return request
    case .endKeeping:
      var request = HostRequest(.keep, name: try reader.text())
      request.end = true
      return request
    case .adopt:
      var request = HostRequest(.adopt)
      request.pid = try reader.pid()
      let name = try reader.text()
      request.name = name.isEmpty ? nil : name
      request.foreground = try reader.flag()
      request.derived = try reader.flag()
      request.alone = try reader.flag()
      request.restart = try Self.restart(try reader.text())
      return request
    case .warn:
      let name = try reader.text()
      return HostRequest(.warn, name: name.isEmpty ? nil : name)
    case .notify:
      var request = HostRequest(.notify, name: try reader.text())
      request.kind = try reader.text()
      request.payload = try Self.payload(try reader.text())
      return request
    case .reply:
      var request = HostRequest(.notify, name: try reader.text())
      (request.message, request.again) = (try reader.bytes(), true)
      return request
    }
  }

  private static func payload(_ text: String) throws(BusRefusal) -> [String: String] {
    if text.isEmpty { return [:] }
    guard let payload = try? JSONDecoder().decode([String: String].self, from: Data(text.utf8)) else {
      throw BusRefusal.arguments("payload is no object of JSON whose values are texts")
    }
    return payload
  }

  private static func restart(_ text: String) throws(BusRefusal) -> RunDeclaration? {
    if text.isEmpty { return nil }
    guard let declaration = try? JSONDecoder().decode(RunDeclaration.self, from: Data(text.utf8)) else {
      throw BusRefusal.arguments(
        "restart is no object of JSON with command, folder and environment, as of the socket's adopt")
    }
    return declaration
  }

  private static func locks(_ text: String) throws(BusRefusal) -> LockPolicy.Answer? {
    if text.isEmpty { return nil }
    guard let answer = LockPolicy.Answer(rawValue: text) else {
      throw BusRefusal.arguments("locks is '\(text)': expected refuse, terminate, ignore or nothing")
    }
    return answer
  }

  func write(_ answer: HostAnswer, to writer: BusWriter) throws {
    switch self {
    case .apps: return try Self.write(answer.apps ?? [], to: writer)
    case .start: try writer.pid(answer.pid ?? 0)
    case .suspend, .hibernate: try writer.number(answer.wait ?? 0)
    case .adopt:
      try writer.text(answer.name ?? "")
      try writer.text(answer.mark ?? "")
    case .notify: try writer.bytes(answer.message ?? 0)
    case .reply:
      try writer.number(answer.wait ?? 0)
      try writer.text(answer.reply ?? "")
    case .front, .resume, .terminate, .keep, .endKeeping, .warn: break
    }
    try writer.texts(answer.notes ?? [])
  }

  /// A dictionary for each, with the socket's keys, so that more can come.
  private static func write(_ apps: [AppEntry], to writer: BusWriter) throws {
    try writer.container("a", "a{sv}") {
      for app in apps {
        try writer.container("a", "{sv}") {
          try writer.entry("id", "s") { try writer.text(app.id) }
          try writer.entry("state", "s") { try writer.text(app.state) }
          try writer.entry("pids", "au") {
            try writer.container("a", "u") {
              for pid in app.pids { try writer.pid(pid) }
            }
          }
          if let cgroup = app.cgroup {
            try writer.entry("cgroup", "s") { try writer.text(cgroup) }
          }
          try writer.entry("cpu_s", "d") { try writer.number(app.cpuSeconds) }
          try writer.entry("memory_bytes", "t") {
            try writer.bytes(app.memoryBytes)
          }
          if let memoryBy = app.memoryBy {
            try writer.entry("memory_by", "s") { try writer.text(memoryBy.rawValue) }
          }
          if let way = app.hibernatedBy {
            try writer.entry("hibernated_by", "s") { try writer.text(way.rawValue) }
          }
          try writer.entry("kept_by", "as") { try writer.texts(app.keptBy) }
          try writer.entry("kept_sockets", "u") { try writer.count(app.keptSockets) }
          try writer.entry("scheduled", "u") { try writer.count(app.scheduled) }
          try writer.entry("notes", "as") { try writer.texts(app.notes) }
        }
      }
    }
  }

  /// What the object answers to `Introspect`.
  static let introspection: String = {
    func list(_ values: Values, _ direction: String) -> String {
      values.map { #"<arg name="\#($0.name)" type="\#($0.type)"\#(direction)/>"# }.joined()
    }
    let methods = allCases.map { method in
      #"<method name="\#(method.rawValue)">"# + list(method.arguments, #" direction="in""#)
        + list(method.results, #" direction="out""#) + "</method>"
    }
    let signals = BusSignal.allCases.map { signal in
      #"<signal name="\#(signal.rawValue)">"# + list(signal.values, "") + "</signal>"
    }
    return "<node><interface name=\"\(HostBus.name)\">\((methods + signals).joined())</interface></node>"
  }()
}

/// What is told to whoever listens.
enum BusSignal: String, CaseIterable {
  case stateChanged = "StateChanged"
  case ended = "Ended"
  case notified = "Notified"

  var values: BusMethod.Values {
    switch self {
    case .stateChanged: [("name", "s"), ("state", "s")]
    case .ended: [("name", "s")]
    case .notified: [("name", "s"), ("body", "s"), ("action", "s"), ("sound", "s")]
    }
  }
}

extension ProcessHostError {
  /// As the bus names it.
  var busName: String {
    let kind =
      switch code {
      case .unknownApp: "UnknownApp"
      case .invalidName: "InvalidName"
      case .nameTaken: "NameTaken"
      case .process: "Process"
      case .otherUser: "OtherUser"
      case .program: "Program"
      case .starter: "Starter"
      case .lifecycle: "Lifecycle"
      case .exempt: "Exempt"
      case .locked: "Locked"
      case .display: "Display"
      case .notHibernated: "NotHibernated"
      case .value: "Value"
      case .notStopped: "NotStopped"
      case .system: "System"
      case .manifest: "Manifest"
      case .terminal: "Terminal"
      case .backend: "Backend"
      }
    return HostBus.name + ".Error." + kind
  }
}
