import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// The bus has what the socket has.
@Suite(.bounded) struct BusMethodTests {
  /// What each request of the socket takes.
  private static func keys(of action: HostRequest.Action) -> Set<String> {
    switch action {
    case .apps: ["all"]
    case .adopt: ["pid", "name", "foreground", "derived", "alone", "restart"]
    case .start: ["name", "foreground"]
    case .suspend, .hibernate: ["name", "locks", "again"]
    case .front, .resume, .terminate, .warn: ["name"]
    case .keep: ["name", "seconds", "reason", "end"]
    case .notify: ["name", "kind", "payload", "message", "again"]
    case .join: ["restarts"]
    }
  }

  /// Its methods, each with the keys that it sets by itself.
  private static func methods(of action: HostRequest.Action) -> [(method: BusMethod, implied: Set<String>)] {
    switch action {
    case .apps: [(.apps, [])]
    case .adopt: [(.adopt, [])]
    case .start: [(.start, [])]
    case .front: [(.front, [])]
    case .suspend: [(.suspend, [])]
    case .hibernate: [(.hibernate, [])]
    case .resume: [(.resume, [])]
    case .terminate: [(.terminate, [])]
    case .keep: [(.keep, []), (.endKeeping, ["end"])]
    case .warn: [(.warn, [])]
    case .notify: [(.notify, []), (.reply, ["again"])]
    // It turns the connection into the program's own, which a bus cannot: docs/host.md says so.
    case .join: []
    }
  }

  @Test(arguments: HostRequest.Action.allCases) func eachRequestHasItsMethodsWithAllKeys(
    action: HostRequest.Action
  ) {
    let methods = Self.methods(of: action)
    if methods.isEmpty { return #expect(action == .join) }
    let had = methods.reduce(into: Set<String>()) { all, one in
      all.formUnion(one.implied.union(one.method.arguments.map(\.name)))
    }
    #expect(had == Self.keys(of: action))
  }

  @Test func theTablesAreWhole() {
    let all = HostRequest.Action.allCases
    let keys = all.reduce(into: Set(["request"])) { $0.formUnion(Self.keys(of: $1)) }
    #expect(Set(Mirror(reflecting: HostRequest(.apps)).children.compactMap(\.label)) == keys)
    let methods = all.flatMap { Self.methods(of: $0).map(\.method) }
    #expect(methods.count == BusMethod.allCases.count && Set(methods) == Set(BusMethod.allCases))
  }
}
