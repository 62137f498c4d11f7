/// An event of the lifecycle table. The system decides what causes it. (R-LIFE-22)
public enum LifecycleEvent: UInt8, Sendable, Hashable, CaseIterable, Codable {
  /// The user starts it.
  case launchForeground
  /// It is launched in the background, by design or by need.
  case launchBackground
  /// The user, or an accepted prompt, brings it to the foreground.
  case bringForward
  /// It becomes the app that receives user input.
  case activate
  /// It stays in the foreground but receives no input: a call, a message, the screen lock, another window.
  case interrupt
  /// The interruption is over.
  case endInterruption
  /// It leaves the foreground: home button, another app, loss of power.
  case leave
  /// No reason keeps it running in the background.
  case suspend
  /// Its last slice has ended after `suspend`.
  case stopped
  /// A registered event occurred: a message, data, a heartbeat, a timer, a finished transfer.
  case reanimate
  /// A location event occurred for it.
  case locationEvent
  /// Its memory goes to the hibernation store.
  case hibernate
  /// Memory is short.
  case memoryWarning
  /// The user or the system terminates it.
  case terminate
  /// It exceeded a time limit: it runs no more code.
  case overrun
  /// It exited, or its process has ended.
  case exit
  /// All that it held has been released.
  case reap

  /// The name in tables and logs.
  package var name: String {
    switch self {
    case .launchForeground: "launch to foreground"
    case .launchBackground: "launch to background"
    case .bringForward: "bring forward"
    case .activate: "activate"
    case .interrupt: "interrupt"
    case .endInterruption: "end interruption"
    case .leave: "leave"
    case .suspend: "suspend"
    case .stopped: "stopped"
    case .reanimate: "reanimate"
    case .locationEvent: "location event"
    case .hibernate: "hibernate"
    case .memoryWarning: "memory warning"
    case .terminate: "terminate"
    case .overrun: "overrun"
    case .exit: "exit"
    case .reap: "reap"
    }
  }
}

extension LifecycleEvent: CustomStringConvertible {
  public var description: String { name }
}
