/// A piece of hardware that only some states may use. More can be added by name. (R-HW-02)
public struct Hardware: Sendable, Hashable, Comparable, CustomStringConvertible {
  public let name: String
  public init(_ name: String) { self.name = name }

  public static let camera = Hardware("camera")
  public static let gpu = Hardware("gpu")
  public static let accelerometer = Hardware("accelerometer")
  public static let gyroscope = Hardware("gyroscope")
  public static let proximity = Hardware("proximity")
  public static let microphone = Hardware("microphone")

  public static func < (left: Hardware, right: Hardware) -> Bool { left.name < right.name }
  public var description: String { name }
}

/// A resource that apps share by locking it. More can be added by name. (R-LOCK-03)
public struct SharedResource: Sendable, Hashable, Comparable, CustomStringConvertible {
  public let name: String
  /// Whether it can be taken away; what cannot be is lost only with the app.
  public let isRevocable: Bool
  public init(_ name: String, isRevocable: Bool) {
    self.name = name
    self.isRevocable = isRevocable
  }

  public static let graphics = SharedResource("graphics", isRevocable: true)
  public static let camera = SharedResource("camera", isRevocable: true)
  public static let addressBook = SharedResource("address book", isRevocable: true)
  public static let calendar = SharedResource("calendar", isRevocable: true)
  public static let fileDescriptor = SharedResource("file descriptor", isRevocable: false)

  public static func < (left: SharedResource, right: SharedResource) -> Bool { left.name < right.name }
  public var description: String { name }
}

/// What is restricted, each by itself. (R-SYS-02)
public struct RestrictionPolicy: Sendable, Hashable {
  /// Foreground and background bands.
  public var cpu = true
  public var storage = true
  public var network = true
  public var graphics = true
  public var hardware = true
  public var locks = true
  /// Hardware that only the foreground may use.
  public var foregroundHardware: Set<Hardware> = [
    .camera, .gpu, .accelerometer, .gyroscope, .proximity, .microphone,
  ]
  /// What comes of trying the GPU in background. (R-GFX-02)
  public var gpuInBackground: Attempt = .terminate
  /// What comes of a shared resource held at suspension. (R-LOCK-01, R-LOCK-02)
  public var heldAtSuspension: Held = .revokeOrTerminate
  /// Apps in front without the user's input are restricted as background ones in storage, network and hardware.
  /// (R-PWR-05, R-CPU-11)
  public var limitsInactive = false

  public enum Attempt: Sendable, Hashable, CaseIterable { case deny, terminate }
  public enum Held: Sendable, Hashable, CaseIterable {
    /// Grants are taken away, the holder of others is terminated.
    case revokeOrTerminate
    /// Whoever holds any is terminated.
    case terminate
    /// Everything is taken away when the app goes to background; nobody is terminated.
    case revokeAll
  }

  public init() {}
}

/// What an app may use now, for the brokers of each resource. A pure function of its state.
public struct Restrictions: Sendable, Hashable {
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
  public var mayRunRealTime: Bool
  public var storage: Class
  public var network: Class
  /// Drawing has an effect. (R-GFX-03)
  public var mayDraw: Bool
  /// Hardware that it gets and keeps none of.
  public var deniedHardware: Set<Hardware>

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
  public init(
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
    cpu: Class, mayRunRealTime: Bool, storage: Class, network: Class, mayDraw: Bool, deniedHardware: Set<Hardware>
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
public enum AudioActivity: String, Sendable, Hashable, CaseIterable, Codable { case play, record }
