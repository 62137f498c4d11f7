internal import Glibc
internal import OpportuneApps

/// What one app may use only in part, or not at all, while it is in background.
///
/// Used by one thread at a time.
final class AppLimits {
  private let limits: BackgroundLimits
  private let group: String?
  /// Hardware that it keeps in background.
  private let kept: Set<Hardware>
  private let network: NetworkLimit
  private let storage: AppStorage
  /// What it may not open now; `nil`: nothing is taken from it.
  private(set) var denied: DeviceList?
  private var limitsPackets = false
  private var links: [Part: [OpenDescriptor]] = [:]
  private var lacks: [Part: LimitLack] = [:]
  private var isBehind = false

  private enum Part: CaseIterable { case devices, network }

  /// - Parameters:
  ///   - group: its control group; `nil`: it has none.
  ///   - network: what it has of the network.
  ///   - storage: what it may read and write.
  init(
    _ limits: BackgroundLimits, group: String?, kept: Set<Hardware>, network: NetworkLimit,
    storage: AppStorage
  ) {
    (self.limits, self.group, self.kept) = (limits, group, kept)
    (self.network, self.storage) = (network, storage)
  }

  /// For people: the limits that could not be set.
  var notes: [String] {
    let all = Part.allCases.map { lacks[$0] } + [storage.lack]
    return isBehind ? all.compactMap { $0?.message } : []
  }

  /// Whether its packets are dropped now, all or some.
  var dropsPackets: Bool { links[.network] != nil }

  /// - Parameter members: its processes.
  func set(_ restrictions: Restrictions, members: () -> [pid_t]) {
    isBehind = restrictions.cpu == .background
    // An app that does not run keeps its limits.
    if restrictions.storage != .none {
      storage.set(isLimited: restrictions.storage == .background, members: members)
    }
    // A frozen app stays online: its peers wait, while dropped packets would cost seconds later.
    let isLimited = network != .none && restrictions.network == .background
    if isLimited != limitsPackets {
      limitsPackets = isLimited
      attach(isLimited ? .init(network) : nil, as: .network)
    }
    let list = limits.devices.limited(to: restrictions.deniedHardware.subtracting(kept))
    let wanted = list.devices.isEmpty ? nil : list
    guard wanted != denied else { return }
    denied = wanted
    // What is opened later is refused, so that whoever looks then sees all that is open.
    attach(wanted.map { .devices($0) }, as: .devices)
  }

  /// In place of what was attached; `nil`: nothing.
  private func attach(_ program: BackgroundLimits.Program?, as part: Part) {
    (links[part], lacks[part]) = (nil, nil)
    guard let program else { return }
    do throws(LimitLack) { links[part] = try limits.attach(program, to: group) } catch { lacks[part] = error }
  }

  /// Lifts all limits.
  ///
  /// - Parameter members: its processes.
  func lift(_ members: [pid_t]) {
    set(.unrestricted, members: { members })
    storage.lift(members)
  }
}
