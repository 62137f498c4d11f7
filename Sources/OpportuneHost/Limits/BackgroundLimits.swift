internal import COpportuneHost
internal import Glibc
internal import OpportuneBase

/// Background is not kept from something.
package struct LimitLack: Error, Sendable, Hashable {
  /// From what.
  package let what: String
  package let why: String

  /// For people.
  package var message: String { "background is not kept from \(what): \(why)" }
}

/// What background may not use on one host: programs of the kernel, which are attached to the groups of apps
/// in background. What is attached lasts as long as this process has it open, so a host that is killed leaves
/// no limits behind that nobody would lift.
///
/// Used by one thread at a time.
final class BackgroundLimits {
  /// A program of the kernel.
  enum Program: Hashable {
    case devices(DeviceList)
    /// All packets but those that stay on the machine.
    case network
    /// Of these, what is more than so many bytes a second.
    case fastNetwork(ByteRate)

    /// - Returns: `nil`: none is needed.
    init?(_ limit: NetworkLimit) {
      switch limit {
      case .none: return nil
      case .denied: self = .network
      case .rate(let rate): self = .fastNetwork(rate)
      }
    }

    var what: String {
      switch self {
      case .devices(let list): "devices (\(list.names.joined(separator: ", ")))"
      case .network: "the network"
      case .fastNetwork(let rate): "receiving and sending more than \(rate) a second"
      }
    }
  }

  /// What is loaded by itself.
  private struct Part: Hashable {
    let program: Program
    let limit: opp_host_limit
  }

  let devices: DeviceList
  /// Of an app that says nothing of it.
  let network: NetworkLimit
  /// Each is loaded once, when it is needed.
  private var loaded: [Part: Result<OpenDescriptor, LimitLack>] = [:]

  init(devices: DeviceList, network: NetworkLimit = .none) {
    (self.devices, self.network) = (devices, network)
  }

  /// What is missing on this host, for people.
  ///
  /// - Parameter hasGroups: whether its apps have control groups of version 2.
  func notes(hasGroups: Bool) -> [String] {
    var wanted: [Program] = []
    if !devices.devices.isEmpty { wanted.append(.devices(devices)) }
    if let program = Program(network) { wanted.append(program) }
    return wanted.compactMap { program in
      do throws(LimitLack) {
        guard hasGroups else { throw Self.noGroup(program) }
        for limit in program.limits { _ = try load(program, limit) }
        return nil
      } catch { return error.message }
    }
  }

  /// Has a program asked about what the processes of a group do.
  ///
  /// - Parameter group: the path; `nil`: there is none.
  /// - Returns: what keeps it attached.
  func attach(_ program: Program, to group: String?) throws(LimitLack) -> [OpenDescriptor] {
    guard let group else { throw Self.noGroup(program) }
    let folder = OpenDescriptor(open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC))
    guard folder.number >= 0 else {
      throw LimitLack(what: program.what, why: "'\(group)': \(errorText(errno))")
    }
    var links: [OpenDescriptor] = []
    for limit in program.limits {
      let link = opp_host_limit_attach(try load(program, limit).number, folder.number, limit)
      guard link >= 0 else { throw LimitLack(what: program.what, why: Self.whyNotAttached(-link, group)) }
      links.append(OpenDescriptor(link))
    }
    return links
  }

  private func load(_ program: Program, _ limit: opp_host_limit) throws(LimitLack) -> OpenDescriptor {
    let part = Part(program: program, limit: limit)
    if let known = loaded[part] { return try known.get() }
    let number = program.load(limit)
    let result: Result<OpenDescriptor, LimitLack> =
      number >= 0
      ? .success(OpenDescriptor(number))
      : .failure(LimitLack(what: program.what, why: Self.whyNotLoaded(-number)))
    loaded[part] = result
    return try result.get()
  }

  private static func noGroup(_ program: Program) -> LimitLack {
    LimitLack(what: program.what, why: noGroupWhy)
  }

  fileprivate static let noGroupWhy = "that needs control groups of version 2 that may be written"

  static func whyNotLoaded(_ number: Int32) -> String {
    switch number {
    case EPERM, EACCES: "BPF programs need CAP_BPF and CAP_NET_ADMIN, which root has"
    case ENOSYS, EINVAL:
      "this kernel has no such BPF programs of control groups (CONFIG_CGROUP_BPF; a rate needs Linux 5.8)"
    default: "the BPF program could not be loaded: \(errorText(number))"
    }
  }

  static func whyNotAttached(_ number: Int32, _ group: String) -> String {
    switch number {
    case EPERM, EACCES: "a group above '\(group)' allows no BPF program beside its own"
    case EINVAL: "BPF programs that go with their host need Linux 5.7"
    default: "the BPF program could not be attached to '\(group)': \(errorText(number))"
    }
  }
}

extension BackgroundLimits.Program {
  fileprivate var limits: [opp_host_limit] {
    switch self {
    case .devices: [opp_host_limit_of_devices]
    case .network, .fastNetwork: [opp_host_limit_of_arrivals, opp_host_limit_of_departures]
    }
  }

  /// - Returns: a descriptor, or the number of the error, negated.
  fileprivate func load(_ limit: opp_host_limit) -> Int32 {
    switch self {
    case .devices(let list):
      let all = list.devices.values.flatMap(\.self).map {
        opp_host_device(is_block: $0.isBlock ? 1 : 0, major: $0.major, minor: $0.minor ?? -1)
      }
      return opp_host_limit_devices(all, all.count)
    case .network: return opp_host_limit_network(limit)
    case .fastNetwork(let rate): return opp_host_slow_network(rate.bytesPerSecond, limit)
    }
  }
}

/// Whether this process could keep background from anything.
package enum LimitSupport {
  /// Programs are loaded and dropped; nothing is attached or changed.
  ///
  /// - Returns: why it could not, for people; `nil`: it could.
  package static func lack() -> String? { lack(inGroup: ControlGroupTree.ownGroup()) }

  static func lack(inGroup group: String?) -> String? {
    guard let group, access(group, W_OK) == 0 else { return BackgroundLimits.noGroupWhy }
    for program in [BackgroundLimits.Program.devices(.standard), .network, .fastNetwork(.least)] {
      for limit in program.limits {
        let number = program.load(limit)
        guard number >= 0 else { return BackgroundLimits.whyNotLoaded(-number) }
        defer { close(number) }
        // Of no group: a kernel that could says so, one before that does not know the call.
        guard opp_host_limit_attach(number, -1, limit) != -EINVAL else {
          return BackgroundLimits.whyNotAttached(EINVAL, group)
        }
      }
    }
    return nil
  }
}

/// A descriptor that is closed with the last reference.
final class OpenDescriptor {
  let number: Int32

  /// - Parameter number: negative: none.
  init(_ number: Int32) { self.number = number }

  deinit { if number >= 0 { close(number) } }
}
