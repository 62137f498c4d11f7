import Foundation
import Opportune
import OpportuneScheduler
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

  @Test func findingsGoToTheEndOfTheirArea() {
    func finding(_ area: Diagnosis.Area, _ subject: String) -> Diagnosis.Finding {
      Diagnosis.Finding(area, subject, .ok, found: "")
    }
    var diagnosis = Diagnosis(findings: [finding(.system, "a"), finding(.io, "b")])
    diagnosis.add([finding(.memory, "c"), finding(.selfTest, "d"), finding(.system, "e"), finding(.memory, "f")])
    #expect(diagnosis.findings.map(\.subject) == ["a", "e", "c", "f", "b", "d"])
    diagnosis = Diagnosis(findings: [])
    diagnosis.add([finding(.memory, "c")])
    #expect(diagnosis.findings.count == 1)
  }
}
