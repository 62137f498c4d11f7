/// What can happen to an app, as the lifecycle table knows it. What led to it is the system's business.
/// (R-LIFE-22)
public enum LifecycleEvent: UInt8, Sendable, Hashable, CaseIterable, Codable {
  /// The user starts it.
  case launchForeground
  /// It is started without coming to the front, by design or necessity.
  case launchBackground
  /// The user, or an accepted prompt, brings it to the front.
  case bringForward
  /// It becomes the one that receives user input.
  case activate
  /// It stays in front but receives no input: a call, a message, the screen lock, another window.
  case interrupt
  /// The interruption is over.
  case endInterruption
  /// It leaves the front: home button, another app, loss of power.
  case leave
  /// No reason is left to run it in background.
  case suspend
  /// Its last slice has ended after `suspend`.
  case stopped
  /// Something that it named occurred: a message, data, a heartbeat, a timer, a finished transfer.
  case reanimate
  /// A location event occurred for it.
  case locationEvent
  /// Its memory goes to the hibernation store.
  case hibernate
  /// Memory is short.
  case memoryWarning
  /// The user or the system ends it.
  case terminate
  /// It took longer than it may: it does not run any more code.
  case overrun
  /// It ended by itself, or its process is gone.
  case exit
  /// Nothing of it is left.
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
