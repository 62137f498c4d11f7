/// A piece of hardware that only some states may use. More can be added by name. (R-HW-02)
public struct Hardware: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// By which it is known.
  public let name: String
  /// Hardware of one's own.
  public init(_ name: String) { self.name = name }

  /// Takes pictures.
  public static let camera = Hardware("camera")
  /// Draws and computes.
  public static let gpu = Hardware("gpu")
  /// Feels how the device moves.
  public static let accelerometer = Hardware("accelerometer")
  /// Feels how the device turns.
  public static let gyroscope = Hardware("gyroscope")
  /// Feels what is near.
  public static let proximity = Hardware("proximity")
  /// Hears.
  public static let microphone = Hardware("microphone")

  public static func < (left: Hardware, right: Hardware) -> Bool { left.name < right.name }
  public var description: String { name }
}

/// A resource that apps share by locking it. More can be added by name. (R-LOCK-03)
public struct SharedResource: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// By which it is known.
  public let name: String
  /// Whether it can be taken away; what cannot be is lost only with the app.
  public let isRevocable: Bool
  /// A resource of one's own.
  public init(_ name: String, isRevocable: Bool) {
    self.name = name
    self.isRevocable = isRevocable
  }

  /// The graphics hardware, by its lock.
  public static let graphics = SharedResource("graphics", isRevocable: true)
  /// The camera, by its lock.
  public static let camera = SharedResource("camera", isRevocable: true)
  /// The user's contacts.
  public static let addressBook = SharedResource("address book", isRevocable: true)
  /// The user's calendar.
  public static let calendar = SharedResource("calendar", isRevocable: true)
  /// A lock of a file.
  public static let fileDescriptor = SharedResource("file descriptor", isRevocable: false)

  public static func < (left: SharedResource, right: SharedResource) -> Bool { left.name < right.name }
  public var description: String { name }
}

/// What is restricted, each by itself. (R-SYS-02)
public struct RestrictionPolicy: Sendable, Hashable {
  /// Foreground and background bands.
  public var cpu = true
  /// The class of files.
  public var storage = true
  /// The class of sockets.
  public var network = true
  /// Whether drawing has an effect.
  public var graphics = true
  /// Grants of hardware.
  public var hardware = true
  /// Locks of shared resources.
  public var locks = true
  /// Hardware that only the foreground may use.
  public var foregroundHardware: Set<Hardware> = [
    .camera, .gpu, .accelerometer, .gyroscope, .proximity, .microphone,
  ]
  /// What comes of trying the GPU in background. (R-GFX-02)
  public var gpuInBackground: Attempt = .terminate
  /// What comes of a shared resource held at suspension. (R-LOCK-01, R-LOCK-02)
  public var heldAtSuspension: Held = .revokeOrTerminate
  /// Apps in front without the user's input are restricted as background ones in storage, network and
  /// hardware. (R-PWR-05, R-CPU-11)
  public var limitsInactive = false

  /// What comes of an attempt.
  public enum Attempt: Sendable, Hashable, CaseIterable {
    /// It has no effect.
    case deny
    /// The app ends.
    case terminate
  }
  /// What comes of holding on.
  public enum Held: Sendable, Hashable, CaseIterable {
    /// Grants are taken away, the holder of others is terminated.
    case revokeOrTerminate
    /// Whoever holds any is terminated.
    case terminate
    /// Everything is taken away when the app goes to background; nobody is terminated.
    case revokeAll
  }

  /// Everything is restricted.
  public init() {}
}

/// What an app may use now, for the brokers of each resource. A pure function of its state.
public struct Restrictions: Sendable, Hashable {
  /// How a resource serves an app.
  public enum Class: String, Sendable, Hashable, CaseIterable, Codable {
    /// As the foreground.
    case foreground
    /// As the background.
    case background
    /// Not at all.
    case none
  }

  /// The band of its threads; real-time threads keep theirs only where ``mayRunRealTime``.
  public var cpu: Class
  /// Whether its real-time threads keep their band.
  public var mayRunRealTime: Bool
  /// The class of its files.
  public var storage: Class
  /// The class of its sockets.
  public var network: Class
  /// Drawing has an effect. (R-GFX-03)
  public var mayDraw: Bool
  /// Hardware that it gets and keeps none of.
  public var deniedHardware: Set<Hardware>

  /// As the active app.
  public static let unrestricted = Restrictions(
    cpu: .foreground, mayRunRealTime: true, storage: .foreground, network: .foreground, mayDraw: true,
    deniedHardware: [])

  /// What follows from a state.
  ///
  /// - Parameters:
  ///   - state: the app's.
  ///   - receivesInput: whether the user's input goes to it; every resource can depend on it. (R-CPU-11)
  ///   - audio: what it does under the Audio service.
  ///   - hasFullPower: external power, where that lifts restrictions. (R-PWR-02)
  package init(
    _ state: LifecycleState, receivesInput: Bool, audio: AudioActivity?, hasFullPower: Bool,
    policy: RestrictionPolicy
  ) {
    self = .unrestricted
    guard state.mayExecute else {
      self = Restrictions(
        cpu: .none, mayRunRealTime: false, storage: .none, network: .none, mayDraw: false,
        deniedHardware: policy.foregroundHardware)
      return
    }
    let isBehind = state == .background
    let isLimited = (isBehind || (policy.limitsInactive && !receivesInput)) && !hasFullPower
    guard isLimited else {
      // Shows nothing, whatever the power.
      mayDraw = !isBehind || !policy.graphics
      return
    }
    if isBehind {
      cpu = policy.cpu ? .background : .foreground
      mayRunRealTime = !policy.cpu || audio != nil
      mayDraw = !policy.graphics
    }
    storage = policy.storage ? .background : .foreground
    network = policy.network ? .background : .foreground
    if policy.hardware {
      deniedHardware = policy.foregroundHardware
      if audio == .record { deniedHardware.remove(.microphone) }
    }
    if !policy.graphics { deniedHardware.remove(.gpu) } else if isBehind { deniedHardware.insert(.gpu) }
  }

  private init(
    cpu: Class, mayRunRealTime: Bool, storage: Class, network: Class, mayDraw: Bool,
    deniedHardware: Set<Hardware>
  ) {
    self.cpu = cpu
    self.mayRunRealTime = mayRunRealTime
    self.storage = storage
    self.network = network
    self.mayDraw = mayDraw
    self.deniedHardware = deniedHardware
  }
}

/// What an app does under the Audio service.
public enum AudioActivity: String, Sendable, Hashable, CaseIterable, Codable {
  /// It plays.
  case play
  /// It records.
  case record
}
