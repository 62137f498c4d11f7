import Foundation
import TestSupport
import Testing

@testable import Opportune

/// A machine without any shortcoming.
private var fine: MemoryFacts {
  var facts = MemoryFacts()
  facts.machine = MemoryReading(capacity: 16_800_000_000, inUse: 412_000_000)
  return facts
}

/// `alike` are subjects that want for the same reason.
private func finding(
  _ subject: String, alike: Set<String> = [], _ change: (inout MemoryFacts) -> Void = { _ in }
) throws -> Diagnosis.Finding {
  var facts = fine
  change(&facts)
  let wanting = Set(facts.findings.filter { $0.subject != subject && $0.status != .ok }.map(\.subject))
  #expect(wanting == alike, "one thing is wanting, and one finding says so")
  return try #require(facts.findings.first { $0.subject == subject })
}

// R-SYS-03
@Suite(.bounded) struct MemoryDiagnosisTests {
  @Test func nothingIsWantingOnAFineMachine() {
    #expect(
      fine.findings.allSatisfy {
        $0.status == .ok && $0.area == .memory && $0.cost == nil && $0.remedy == nil
      })
    #expect(Set(fine.findings.map(\.subject)).count == fine.findings.count)
  }

  @Test func whatIsWantingNamesItsCostAndHowToMendIt() throws {
    let cases: [(String, Diagnosis.Status, found: String, cost: String, (inout MemoryFacts) -> Void)] = [
      ("Stall alarm", .missing, "No such file", "once a second", { $0.stallError = ENOENT }),
      ("Page size", .degraded, "65536 bytes", "each value of a cache", { $0.pageSize = 65536 }),
      ("Lazy purging", .missing, "MADV_FREE: Invalid", "Drawing memory", { $0.freeError = EINVAL }),
      ("Clean pages", .degraded, "MADV_PAGEOUT: Invalid", "mapped files", { $0.pageOutError = EINVAL }),
      ("Wired memory", .missing, "no page", "refused", { $0.lockable = 0 }),
      ("Sampling", .missing, "smaps_rollup", "Ledgers", { $0.hasRollup = false }),
      (
        "Hibernation store", .degraded, "'.' takes no file: Permission", "terminated",
        { $0.store.fileError = EACCES }
      ),
      ("Hibernation store", .degraded, "tmpfs", "taking up memory", { $0.store.isMemory = true }),
      (
        "Hibernation store", .degraded, "no blocks aside", "each of its blocks",
        { $0.store.allocateError = EOPNOTSUPP }
      ),
    ]
    for (subject, status, found, cost, change) in cases {
      let finding = try finding(subject, change)
      #expect(finding.status == status && finding.found.contains(found), "\(finding)")
      #expect(finding.cost?.contains(cost) == true && finding.remedy != nil, "\(finding)")
    }
  }

  @Test func withoutProcNeitherTheAmountNorTheLimitIsKnown() throws {
    let amount = try finding("Amount", alike: ["Memory limit"]) { $0.machine = nil }
    #expect(
      amount.status == .missing && amount.cost?.contains("nobody notices") == true && amount.remedy != nil)
    let limit = try finding("Memory limit", alike: ["Amount"]) { $0.machine = nil }
    #expect(limit.status == .missing && limit.cost?.contains("is not kept") == true && limit.remedy != nil)
  }

  @Test func whyTheKernelGivesNoAlarmDecidesHowToMendIt() throws {
    func remedy(_ error: Int32) throws -> String? {
      try finding("Stall alarm") { $0.stallError = error }.remedy
    }
    #expect(try remedy(EOPNOTSUPP)?.contains("psi=1") == true)
    #expect(try remedy(EACCES)?.contains("CAP_SYS_RESOURCE") == true)
    #expect(try remedy(EINVAL)?.contains("Linux") == true)
  }

  @Test func amountsAreNamed() throws {
    #expect(try finding("Amount").found == "16.8 GB, of which 412 MB are in use")
    #expect(try finding("Memory limit").found == "none")
    let limit = try finding("Memory limit") {
      $0.cgroups = [
        MemoryReading(capacity: 2_000_000_000, inUse: 5000), MemoryReading(capacity: 64_000_000, inUse: 5000),
      ]
    }
    #expect(limit.found.hasPrefix("64 MB by the cgroup, of which 5 kB are in use"))
    #expect(try finding("Swap").found.hasPrefix("none"))
    #expect(try finding("Swap") { $0.swap = 2_000_000_000 }.found.hasPrefix("2 GB"))
    #expect(try finding("Wired memory").found == "without limit")
    #expect(try finding("Wired memory") { $0.lockable = 8_388_608 }.found == "up to 8 MB; more is refused")
    #expect(
      try finding("Hibernation store") { $0.store.directError = EINVAL }.found.contains(
        "does not take O_DIRECT"))
  }

  /// Whatever this machine gives: what is asked of it is what the library does.
  @Test func thisMachineIsRead() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "opportune-doctor-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(at: folder) }
    let facts = MemoryFacts.read(storeFolder: folder.path)
    #expect(facts.pageSize == sysconf(Int32(_SC_PAGESIZE)))
    #expect(facts.machine?.capacity == MachineMemory.system.machineReading()?.capacity)
    #expect(facts.store.folder == folder.path && facts.store.fileError == 0)
    #expect(facts.hasRollup == ((try? ProcessMemory()) != nil))
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == [], "nothing is left behind")
    #expect(MemoryFacts.read(storeFolder: "/nowhere").store.fileError == ENOENT)
    if MemoryFacts.read(storeFolder: "/dev/shm").store.fileError == 0 {
      #expect(MemoryFacts.read(storeFolder: "/dev/shm").store.isMemory)
    }
    let findings = Diagnosis.memoryFindings(storeFolder: "/nowhere")
    #expect(findings.last?.found.hasPrefix("'/nowhere' takes no file") == true)
  }
}
