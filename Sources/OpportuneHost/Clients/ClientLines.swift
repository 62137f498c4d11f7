import Foundation
internal import OpportuneApps

/// What a program that has joined says: one line of JSON.
///
/// Exactly one of `answer`, `begin`, `end`, `keepAlive` and `letGo` is there.
struct ClientSaid: Decodable, Sendable, Hashable {
  /// The number of the question that is answered.
  var answer: UInt64?
  /// For `answer` of a message: what its sender is told.
  var reply: String?
  /// A background task begins; the number is the program's own.
  var begin: Int64?
  /// What it is for, for people; for `begin`.
  var name: String?
  /// A background task is over.
  var end: Int64?
  /// A socket that has come with the line is kept alive; the number is the program's own.
  var keepAlive: Int64?
  /// A socket is not kept alive any more.
  var letGo: Int64?

  /// - Returns: `nil` where it is no such line.
  static func read(_ line: some DataProtocol) -> ClientSaid? {
    guard let said = try? JSONDecoder().decode(ClientSaid.self, from: Data(line)) else { return nil }
    let verbs = [
      said.answer != nil, said.begin != nil, said.end != nil, said.keepAlive != nil, said.letGo != nil,
    ].count { $0 }
    return verbs == 1 ? said : nil
  }
}

/// What the host says to a program that has joined: one line of JSON.
struct ClientTold: Encodable {
  /// A question's name, or `taskBegan`, `taskRefused`, `keepAliveBegan`, `keepAliveRefused`, `left`.
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
  /// For `taskRefused`, `keepAliveRefused` and `left`: why, for people.
  var reason: String?

  init(_ event: String) { self.event = event }

  enum CodingKeys: String, CodingKey {
    case event, id, launch, task, socket, bytes, file, kind, payload, reason
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
  /// A message has come for it; the number is the host's.
  case didReceiveMessage(Message, number: UInt64)
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
    case .didReceiveMessage: "didReceiveMessage"
    case .saveState: "saveState"
    case .restoreState: "restoreState"
    }
  }

  var file: String? {
    switch self {
    case .saveState(let file), .restoreState(let file): file
    case .callback, .didFinishLaunching, .past, .taskExpires, .willSuspend, .didResume, .memoryWarning,
      .didReceiveData,
      .didReceiveMessage:
      nil
    }
  }

  var task: Int64? { if case .taskExpires(let task) = self { task } else { nil } }

  var launch: LaunchReason? { if case .didFinishLaunching(let reason) = self { reason } else { nil } }

  var arrival: (socket: Int64, bytes: Int)? {
    if case .didReceiveData(let socket, let bytes) = self { (socket, bytes) } else { nil }
  }

  var message: Message? { if case .didReceiveMessage(let message, _) = self { message } else { nil } }

  /// Whether an app that is suspended is reanimated for it.
  var isArrival: Bool { arrival != nil || message != nil }
}
