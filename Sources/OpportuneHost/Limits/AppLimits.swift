internal import Glibc
internal import OpportuneApps

/// What one app may not use while it is in background.
///
/// Used by one thread at a time.
final class AppLimits {
  private let limits: BackgroundLimits
  private let group: String?
  /// Hardware that it keeps in background.
  private let kept: Set<Hardware>
  private var denied: DeviceList?
  private var deviceLinks: [OpenDescriptor] = []
  private var lacks: [LimitLack] = []
  private var held: String?
  private var isBehind = false

  /// - Parameter group: its control group; `nil`: it has none.
  init(_ limits: BackgroundLimits, group: String?, kept: Set<Hardware>) {
    (self.limits, self.group, self.kept) = (limits, group, kept)
  }

  /// What it may use all the same by now, for people.
  var notes: [String] { (isBehind ? lacks.map(\.message) : []) + (held.map { [$0] } ?? []) }

  /// - Parameter members: its processes; those are looked at that may have devices open.
  func set(_ restrictions: Restrictions, members: () -> [pid_t]) {
    isBehind = restrictions.cpu == .background
    let list = limits.devices.limited(to: restrictions.deniedHardware.subtracting(kept))
    let wanted = list.devices.isEmpty ? nil : list
    guard wanted != denied else { return }
    denied = wanted
    (lacks, held) = ([], nil)
    guard let wanted else {
      deviceLinks = []
      return
    }
    // Attached first: what is opened later is refused, so that all that is open is seen.
    do throws(LimitLack) { deviceLinks = try limits.attach(.devices(wanted), to: group) } catch {
      lacks = [error]
    }
    held = HeldDevices.text(HeldDevices.look(at: members(), wanted))
  }

  /// As without a host.
  func lift() { set(.unrestricted, members: { [] }) }
}
