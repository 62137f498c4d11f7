import Foundation
import Opportune
import TestSupport
import Testing

@testable import OpportuneCommand

@Suite(.bounded) struct DoctorCommandTests {
  /// Findings of other modules stand in their areas, in the table and in JSON.
  @Test func memoryIsLookedAtBesideTheRest() async throws {
    let diagnosis = await (try DoctorCommand.parse(["--store", "/nowhere"])).diagnose()
    let areas = diagnosis.findings.map(\.area)
    let order = try areas.map { try #require(Diagnosis.Area.allCases.firstIndex(of: $0)) }
    #expect(order == order.sorted(), "areas are together, and in their order")
    #expect(Set(areas) == Set(Diagnosis.Area.allCases))
    #expect(diagnosis.findings.contains { $0.area == .memory && $0.found.hasPrefix("'/nowhere'") })
    #expect(diagnosis.findings.contains { $0.area == .system && $0.subject == "power events" })
    #expect(diagnosis.text().contains("\nMemory\n"))
    let data = try JSONEncoder().encode(diagnosis)
    #expect(String(decoding: data, as: UTF8.self).contains("\"area\":\"memory\""))
    #expect(try JSONDecoder().decode(Diagnosis.self, from: data) == diagnosis)
  }

  /// Swift has no arguments there.
  @Test(.enabled(if: mayUnshare, "namespaces of one's own are not allowed here"))
  func withoutProcItDoesWhatItIsAskedFor() throws {
    let script = "exec unshare -Urm sh -c 'mount -t tmpfs none /proc && exec \"$@\"' sh \"$@\""
    let json = try Spawned(["doctor", "--json", "--strict"], by: script)
    #expect(json.status == 1, "\(json.errors)")
    let diagnosis = try JSONDecoder().decode(Diagnosis.self, from: Data(json.output.utf8))
    #expect(diagnosis.findings.contains { $0.subject == "/proc" && $0.status == .missing })
    #expect(diagnosis.findings.contains { $0.subject == "Memory limit" && $0.status == .missing })
    #expect(
      diagnosis.findings.contains {
        $0.area == .selfTest && $0.found.hasPrefix("not tried: Swift's Dispatch")
      })
    #expect(Set(diagnosis.findings.map(\.area)) == Set(Diagnosis.Area.allCases))
    let plain = try Spawned(["doctor"], by: script)
    #expect(plain.status == 0, "\(plain.status): \(plain.errors) \(plain.output.suffix(200))")
    let wrong = try Spawned(["doctor", "--bogus"], by: script)
    #expect(wrong.status == 64 && wrong.errors.contains("Unknown option '--bogus'"), "\(wrong.errors)")
    let bench = try Spawned(["bench", "io"], by: script)
    #expect(bench.status == 1 && bench.errors.hasPrefix("Error: this needs /proc"), "\(bench.errors)")
    #expect(try Spawned(["states", "--rules"], by: script).output == Spawned(["states", "--rules"]).output)
  }

  @Test(.enabled(if: mayUnshare, "namespaces of one's own are not allowed here"))
  func rootOfAUserNamespaceIsToldWhatHolds() throws {
    let ran = try Spawned(["doctor", "--json"], by: "exec unshare -Ur \"$@\"")
    let diagnosis = try JSONDecoder().decode(Diagnosis.self, from: Data(ran.output.utf8))
    let user = try #require(diagnosis.findings.first { $0.subject == "User" })
    #expect(user.found.hasPrefix("root of a user namespace, CAP_SYS_NICE only there"))
    #expect(user.status == .degraded && user.remedy?.contains("limits do that it was entered with") == true)
  }

  private static var mayUnshare: Bool {
    (try? Spawned([], by: "exec unshare -Urm mount -t tmpfs none /proc").status) == 0
  }

  @Test func findingsGoToTheEndOfTheirArea() {
    func finding(_ area: Diagnosis.Area, _ subject: String) -> Diagnosis.Finding {
      Diagnosis.Finding(area, subject, .ok, found: "")
    }
    var diagnosis = Diagnosis(findings: [finding(.system, "a"), finding(.io, "b")])
    diagnosis.add([
      finding(.memory, "c"), finding(.selfTest, "d"), finding(.system, "e"), finding(.memory, "f"),
    ])
    #expect(diagnosis.findings.map(\.subject) == ["a", "e", "c", "f", "b", "d"])
    diagnosis = Diagnosis(findings: [])
    diagnosis.add([finding(.memory, "c")])
    #expect(diagnosis.findings.count == 1)
  }
}
