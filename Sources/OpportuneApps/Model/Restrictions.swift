/// A piece of hardware whose use depends on the app's state. More can be added by name. (R-HW-02)
public struct Hardware: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// Identifies the hardware.
  public let name: String
  /// Makes a further kind of hardware.
  public init(_ name: String) { self.name = name }

  /// The camera.
  public static let camera = Hardware("camera")
  /// The graphics processor.
  public static let gpu = Hardware("gpu")
  /// The accelerometer.
  public static let accelerometer = Hardware("accelerometer")
  /// The gyroscope.
  public static let gyroscope = Hardware("gyroscope")
  /// The proximity sensor.
  public static let proximity = Hardware("proximity")
  /// The microphone.
  public static let microphone = Hardware("microphone")

  public static func < (left: Hardware, right: Hardware) -> Bool { left.name < right.name }
  public var description: String { name }
}

/// A resource that apps share by locking it. More can be added by name. (R-LOCK-03)
public struct SharedResource: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// Identifies the resource.
  public let name: String
  /// Whether its lock can be revoked. If not, it is released only with the app's end.
  public let isRevocable: Bool
  /// Makes a further kind of resource.
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

/// The kinds of restrictions, each of which can be turned off. (R-SYS-02)
public struct RestrictionPolicy: Sendable, Hashable {
  /// What states can take from an app.
  public struct Resources: OptionSet, Sendable, Hashable {
    /// A bit for each.
    public let rawValue: UInt8
    /// Those of some bits.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Foreground and background bands.
    public static let cpu = Resources(rawValue: 1)
    /// The class of files.
    public static let storage = Resources(rawValue: 2)
    /// The class of sockets.
    public static let network = Resources(rawValue: 4)
    /// Whether drawing has an effect.
    public static let graphics = Resources(rawValue: 8)
    /// Grants of hardware.
    public static let hardware = Resources(rawValue: 16)
    /// Locks of shared resources.
    public static let locks = Resources(rawValue: 32)
    /// Everything.
    public static let all: Resources = [.cpu, .storage, .network, .graphics, .hardware, .locks]
  }

  /// What is restricted.
  public var resources: Resources = .all
  /// Hardware that only the foreground may use.
  public var foregroundHardware: Set<Hardware> = [
    .camera, .gpu, .accelerometer, .gyroscope, .proximity, .microphone,
  ]
  /// What happens when an app requests the GPU in the background. (R-GFX-02)
  public var gpuInBackground: Attempt = .terminate
  /// What happens to a shared resource held at suspension. (R-LOCK-01, R-LOCK-02)
  public var heldAtSuspension: Held = .revokeOrTerminate
  /// Whether inactive foreground apps are restricted like background apps in storage, network and hardware.
  /// (R-PWR-05, R-CPU-11)
  public var limitsInactive = false

  /// What happens after a forbidden attempt.
  public enum Attempt: Sendable, Hashable, CaseIterable {
    /// It has no effect.
    case deny
    /// The app is terminated.
    case terminate
  }
  /// What happens to held resources.
  public enum Held: Sendable, Hashable, CaseIterable {
    /// Revocable locks are revoked; the holder of others is terminated.
    case revokeOrTerminate
    /// The holder of any lock is terminated.
    case terminate
    /// All locks are revoked when the app goes to the background; no app is terminated.
    case revokeAll
  }

  /// Makes a policy in which everything is restricted.
  public init() {}
}

/// What an app may use now, for the brokers of each resource. A pure function of its state.
public struct Restrictions: Sendable, Hashable {
  /// The service class of a resource.
  public enum Class: String, Sendable, Hashable, CaseIterable, Codable {
    /// Served like the foreground.
    case foreground
    /// Served like the background.
    case background
    /// Not served.
    case none
  }

  /// The band of its threads. Real-time threads keep theirs only if ``mayRunRealTime``.
  public var cpu: Class
  /// Whether its real-time threads keep their band.
  public var mayRunRealTime: Bool
  /// The class of its files.
  public var storage: Class
  /// The class of its sockets.
  public var network: Class
  /// Whether drawing has an effect. (R-GFX-03)
  public var mayDraw: Bool
  /// Hardware that the app is denied, and loses if it has it.
  public var deniedHardware: Set<Hardware>

  /// The restrictions of the active app: none.
  public static let unrestricted = Restrictions(
    cpu: .foreground, mayRunRealTime: true, storage: .foreground, network: .foreground, mayDraw: true,
    deniedHardware: [])

  /// Derives the restrictions from the app's state.
  ///
  /// - Parameters:
  ///   - state: the app's state.
  ///   - receivesInput: whether the app receives the user's input; every resource can depend on it.
  ///     (R-CPU-11)
  ///   - audio: the app's activity under the Audio service.
  ///   - hasFullPower: whether external power lifts restrictions. (R-PWR-02)
  package init(
    _ state: LifecycleState, receivesInput: Bool, audio: AudioActivity?, hasFullPower: Bool,
    policy: RestrictionPolicy
  ) {
    let restricted = policy.resources
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
      // A background app shows nothing, whatever the power.
      mayDraw = !isBehind || !restricted.contains(.graphics)
      return
    }
    if isBehind {
      cpu = restricted.contains(.cpu) ? .background : .foreground
      mayRunRealTime = !restricted.contains(.cpu) || audio != nil
      mayDraw = !restricted.contains(.graphics)
    }
    storage = restricted.contains(.storage) ? .background : .foreground
    network = restricted.contains(.network) ? .background : .foreground
    if restricted.contains(.hardware) {
      deniedHardware = policy.foregroundHardware
      if audio == .record { deniedHardware.remove(.microphone) }
    }
    if !restricted.contains(.graphics) {
      deniedHardware.remove(.gpu)
    } else if isBehind {
      deniedHardware.insert(.gpu)
    }
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

/// The activity of an app under the Audio service.
public enum AudioActivity: String, Sendable, Hashable, CaseIterable, Codable {
  /// It plays.
  case play
  /// It records.
  case record
}
