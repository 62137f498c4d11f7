import Foundation
internal import OpportuneApps

/// What a program that has joined says: one line of JSON.
///
/// Exactly one of `answer`, `begin`, `end`, `keepAlive`, `letGo`, `heartbeat`, `schedule`, `cancel`,
/// `cancelAll`, `pending` and `app` is there.
struct ClientSaid: Decodable, Sendable, Hashable {
  /// The number of the question that is answered.
  var answer: UInt64?
  /// For `answer` of a message: what its sender is told; of what was asked of an app inside of the program:
  /// why it was not done.
  var reply: String?
  /// A background task begins; the number is the program's own.
  var begin: Int64?
  /// For `begin`: what it is for, for people; for `schedule`: the program's own for the notification; for
  /// `app`: the app's.
  var name: String?
  /// A background task is over.
  var end: Int64?
  /// A socket that has come with the line is kept alive; the number is the program's own.
  var keepAlive: Int64?
  /// A socket is not kept alive any more.
  var letGo: Int64?
  /// It is to be asked for a heartbeat, each `after` that it is suspended, or not any more where that is not
  /// there; the number, of the request, is the program's own.
  var heartbeat: Int64?
  /// A local notification is to fire; the number, of the request, is the program's own.
  var schedule: Int64?
  /// For `schedule`: when, in milliseconds since 1970; else `after`.
  var at: Int64?
  /// For `schedule`: how long from now, in milliseconds; for `heartbeat`: how long from its suspension, and
  /// from one to the next.
  var after: Int64?
  /// For `schedule`: `never`, by default, `daily` or `weekly`.
  var repeats: String?
  /// For `schedule`: whose changes of time repeats follow; UTC by default.
  var timeZone: String?
  /// For `schedule`: what the user reads.
  var body: String?
  /// For `schedule`: the title of its button.
  var action: String?
  /// For `schedule`: the name of a sound.
  var sound: String?
  /// The notification of this name is not to fire.
  var cancel: String?
  /// None is to fire.
  var cancelAll: Bool?
  /// It asks what is to fire; the number, of the request, is the program's own.
  var pending: Int64?
  /// It has an app inside, or that has another state; the number is the program's own.
  var app: Int64?
  /// For `app`: as of ``AppEntry``; one that is `terminated` is none any more.
  var state: String?

  enum CodingKeys: String, CodingKey {
    case answer, reply, begin, name, end, keepAlive, letGo, heartbeat, schedule, repeats, body, action, sound,
      cancel, cancelAll, pending, app, state
    case at = "at_ms"
    case after = "after_ms"
    case timeZone = "time_zone"
  }

  /// - Returns: `nil` where it is no such line.
  static func read(_ line: some DataProtocol) -> ClientSaid? {
    guard let said = try? JSONDecoder().decode(ClientSaid.self, from: Data(line)) else { return nil }
    let verbs = [
      said.answer != nil, said.begin != nil, said.end != nil, said.keepAlive != nil, said.letGo != nil,
      said.heartbeat != nil, said.schedule != nil, said.cancel != nil, said.cancelAll != nil,
      said.pending != nil, said.app != nil,
    ].count { $0 }
    return verbs == 1 ? said : nil
  }

  /// What `schedule` asks for.
  func notification(wall: Double) throws(ProcessHostError) -> LocalNotification {
    guard let repeats = LocalNotification.Repeat(rawValue: repeats ?? "never") else {
      let expected = LocalNotification.Repeat.allCases.map(\.rawValue).joined(separator: ", ")
      throw ProcessHostError(
        .value("repeats of the notification", "'\(repeats ?? "")'", "expected one of \(expected)"))
    }
    guard (at == nil) != (after == nil) else {
      throw ProcessHostError(
        .value(
          "the time of the notification", at == nil ? "missing" : "there twice", "expected at_ms or after_ms")
      )
    }
    if let after, after < 0 {
      throw ProcessHostError(.value("after_ms of the notification", "\(after)", "expected 0 or more"))
    }
    let date = at.map { Double($0) / 1000 } ?? wall + Double(after ?? 0) / 1000
    return LocalNotification(
      fireDate: .instant(date), timeZone: timeZone ?? "UTC", repeats: repeats, body: body ?? "",
      action: action,
      sound: sound)
  }
}

/// What the host says to a program that has joined: one line of JSON.
struct ClientTold: Encodable {
  /// A question's name, or `taskBegan`, `taskRefused`, `keepAliveBegan`, `keepAliveRefused`,
  /// `heartbeatSet`, `heartbeatRefused`, `scheduled`, `scheduleRefused`, `pending`, `pendingEnd`,
  /// `appRefused`, `left`.
  var event: String
  /// Of a question, which is to be answered.
  var id: UInt64?
  /// How long the answer may take.
  var grace: Double?
  /// For `didFinishLaunching`: why the app was launched.
  var launch: LaunchReason?
  var task: Int64?
  var socket: Int64?
  /// What there is to read of the socket.
  var bytes: Int?
  /// For `saveState` and `restoreState`: the path of the file.
  var file: String?
  /// For `didReceiveMessage`.
  var kind: String?
  /// The same: an object of JSON, as a text.
  var payload: String?
  /// The same: `local` of the app's own notification; of others nothing.
  var origin: Message.Origin?
  /// For `heartbeatSet`, `heartbeatRefused`, `scheduled`, `scheduleRefused`, `pending`, `pendingEnd`: that of
  /// the request; for `appRefused` and questions about an app inside of the program: the app's.
  var number: Int64?
  /// For `pending`: the notification's.
  var name: String?
  /// For `scheduled`, `pending`: when it fires, in milliseconds since 1970.
  var at: Int64?
  /// For `taskRefused`, `keepAliveRefused`, `heartbeatRefused`, `scheduleRefused`, `appRefused` and
  /// `left`: why, for people.
  var reason: String?

  init(_ event: String) { self.event = event }

  enum CodingKeys: String, CodingKey {
    case event, id, launch, task, socket, bytes, file, kind, payload, origin, number, name, reason
    case at = "at_ms"
    case grace = "grace_s"
  }
}

/// What a program is asked to do, and answers when it has.
enum ClientQuestion: Hashable {
  /// A callback of the lifecycle that the system waits for.
  case callback(Callback)
  /// The app was launched, for this; it comes when the program joins.
  case didFinishLaunching(LaunchReason)
  /// A callback of the lifecycle that came before it joined.
  case past(Callback)
  /// The time of a background task is over.
  case taskExpires(Int64)
  /// It stops next.
  case willSuspend
  /// It goes on, stopped meanwhile or not.
  case didResume
  case memoryWarning
  /// Something has come for a socket that is kept alive, while it was suspended.
  case didReceiveData(socket: Int64, bytes: Int)
  /// It is time to show its peers that it is there; it was suspended until now.
  case heartbeat
  /// A message has come for it; the number is the host's.
  case didReceiveMessage(Message, number: UInt64)
  /// It does this with an app inside of it; the name is for people.
  case inner(InnerApp.Request, app: Int64, name: String)
  /// It writes its state to this file, with which it can be started anew, and is ended then.
  case saveState(String)
  /// It was started anew, and takes its state from this file.
  case restoreState(String)

  var name: String {
    switch self {
    case .callback(let callback), .past(let callback): callback.rawValue
    case .didFinishLaunching: Callback.didFinishLaunching.rawValue
    case .taskExpires: "taskExpires"
    case .willSuspend: "willSuspend"
    case .didResume: "didResume"
    case .memoryWarning: "didReceiveMemoryWarning"
    case .didReceiveData: "didReceiveData"
    case .heartbeat: "heartbeat"
    case .inner(let request, _, _): request.question
    case .didReceiveMessage: "didReceiveMessage"
    case .saveState: "saveState"
    case .restoreState: "restoreState"
    }
  }

  var file: String? {
    switch self {
    case .saveState(let file), .restoreState(let file): file
    case .callback, .didFinishLaunching, .past, .taskExpires, .willSuspend, .didResume, .memoryWarning,
      .didReceiveData, .heartbeat, .didReceiveMessage, .inner:
      nil
    }
  }

  var task: Int64? { if case .taskExpires(let task) = self { task } else { nil } }

  var launch: LaunchReason? { if case .didFinishLaunching(let reason) = self { reason } else { nil } }

  var arrival: (socket: Int64, bytes: Int)? {
    if case .didReceiveData(let socket, let bytes) = self { (socket, bytes) } else { nil }
  }

  /// The number of the app inside of the program.
  var inner: Int64? { if case .inner(_, let app, _) = self { app } else { nil } }

  var message: Message? { if case .didReceiveMessage(let message, _) = self { message } else { nil } }

  /// Whether an app that is suspended is reanimated for it.
  var isArrival: Bool { arrival != nil || message != nil || self == .heartbeat || inner != nil }
}
