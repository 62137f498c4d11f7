import COpportune
import Foundation
import TestSupport
import Testing

@testable import OpportuneScheduler

/// A machine without any shortcoming.
private var fine: SystemFacts {
  var facts = SystemFacts()
  facts.kernel = "6.18.44-arch1"
  facts.machine = "x86_64"
  facts.hasSysNice = true
  (facts.usableCPUs, facts.onlineCPUs, facts.width) = (8, 8, 8)
  facts.autogroup = false
  facts.realTimeRuntime = 950_000
  facts.realTimePriorityMax = 99
  facts.privileges = KernelPrivileges(canRaise: true, canUseRR: true, canSetSlice: true)
  facts.defaultSlice = 2_800_000
  facts.ringOperations = 63
  return facts
}

/// The same machine as an ordinary user sees it.
private var unprivileged: SystemFacts {
  var facts = fine
  facts.userID = 1000
  facts.hasSysNice = false
  facts.realTimePriorityMax = 0
  facts.privileges = KernelPrivileges(canRaise: false, canUseRR: false, canSetSlice: true)
  return facts
}

private func changed(_ facts: SystemFacts, _ change: (inout SystemFacts) -> Void) -> Diagnosis {
  var facts = facts
  change(&facts)
  return Diagnosis(facts)
}

extension Diagnosis {
  fileprivate func finding(_ subject: String, _ area: Area? = nil) throws -> Finding {
    try #require(findings.first { $0.subject == subject && (area == nil || $0.area == area) })
  }

  fileprivate func status(_ subject: String) throws -> Status { try finding(subject).status }
}

// R-SYS-03: the machine is taken as it is found, and said to be so.
@Suite(.bounded) struct DiagnosisTests {
  @Test func nothingIsWantingOnAFineMachine() {
    let diagnosis = Diagnosis(fine)
    #expect(diagnosis.findings.filter { $0.status != .ok } == [])
    #expect(diagnosis.findings.allSatisfy { $0.remedy == nil })
    #expect(
      Set(diagnosis.findings.map(\.area)) == Set(Diagnosis.Area.allCases).subtracting([.memory, .selfTest]))
  }

  /// Whatever is worse than it could be says what that costs, and each subject is there once.
  @Test func whatIsWantingNamesItsCost() {
    let bare = changed(unprivileged) {
      $0.kernel = "5.10.0"
      $0.hasProc = false
      ($0.usableCPUs, $0.width, $0.quotaMilli) = (1, 1, 300)
      ($0.hasNUMA, $0.hasSchedstat, $0.hasTaskIDs, $0.hasEnqueueHook) = (false, false, false, false)
      $0.canSeeLocks = false
      ($0.autogroup, $0.realTimeRuntime, $0.ringError) = (true, 0, ENOSYS)
      $0.privileges.canSetSlice = false
      $0.descriptorLimit = 64
      $0.threadLimits.group = .init(most: 20, used: 9)
    }
    for finding in bare.findings where finding.status != .ok {
      #expect(finding.cost != nil, "\(finding.subject)")
      #expect(finding.remedy != nil, "\(finding.subject)")
    }
    #expect(Set(bare.findings.map(\.subject)).count == bare.findings.count)
    #expect(bare.count(.missing) >= 6)
  }

  // R-CPU-01
  @Test func poolsAreDescribedAsTheSchedulerChoosesThem() throws {
    let asRoot = Diagnosis(fine)
    let asUser = Diagnosis(unprivileged)
    for diagnosis in [asRoot, asUser] {
      #expect(try diagnosis.finding("Foreground").found == "SCHED_OTHER, nice 0, slice 100 µs")
      #expect(try diagnosis.finding("Background").found.hasPrefix("SCHED_IDLE"))
    }
    #expect(try asRoot.finding("Real-time").found.hasPrefix("SCHED_RR, priorities 1 to 13"))
    #expect(try asUser.finding("Real-time").found.hasPrefix("as the foreground"))
    var configuration = SchedulerConfiguration()
    configuration.backgroundClass = .nice19LongSlice
    let long = Diagnosis(fine, configuration: configuration)
    #expect(try long.finding("Background").found == "SCHED_OTHER, nice 19, slice 100 ms")
  }

  // R-CPU-01
  /// Whether an inversion is seen, and what is done about it.
  @Test func locksAreTold() throws {
    #expect(try Diagnosis(fine).status("Locks") == .ok)
    let unseen = try changed(fine) { $0.canSeeLocks = false }.finding("Locks")
    #expect(unseen.status == .missing && unseen.cost?.contains("docs/sharing.md") == true)
    let user = try Diagnosis(unprivileged).finding("Locks")
    #expect(user.status == .degraded && user.found.contains("cannot be raised"))
  }

  /// Workers keep them, and there is one for each job that blocks.
  @Test(
    arguments: [(nil, .ok, "no limit;"), (1024, .ok, "1024 by"), (256, .degraded, "256 by")]
      as [(Int?, Diagnosis.Status, String)])
  func descriptorsAreTold(limit: Int?, status: Diagnosis.Status, text: String) throws {
    let finding = try changed(fine) { $0.descriptorLimit = limit }.finding("Descriptors")
    #expect(finding.status == status)
    #expect(
      finding.found.hasPrefix(text) && finding.found.contains("a scheduler keeps 23"), "\(finding.found)")
    var own = rlimit()
    #expect(getrlimit(Int32(RLIMIT_NOFILE.rawValue), &own) == 0)
    #expect(SystemFacts.read().descriptorLimit == (own.rlim_cur == rlim_t.max ? nil : Int(own.rlim_cur)))
  }

  // R-SYS-03
  /// A scheduler shares them as is said here.
  @Test(
    arguments: [
      (nil, .ok, "no limit"), (4096, .ok, "4096 by RLIMIT_NPROC, 4 of them used"),
      (18, .degraded, "18 by RLIMIT_NPROC, 4 of them used: 7 foreground and 3 background workers"),
      (6, .missing, "6 by RLIMIT_NPROC, 4 of them used"),
    ] as [(Int?, Diagnosis.Status, String)])
  func threadsAreTold(limit: Int?, status: Diagnosis.Status, text: String) throws {
    let finding = try changed(fine) { facts in
      facts.width = 2
      facts.threadLimits.user = limit.map { .init(most: $0, used: 4) }
    }.finding("Threads")
    #expect(finding.status == status && finding.found.hasPrefix(text), "\(finding.found)")
    #expect((finding.cost == nil) == (status == .ok) && (finding.remedy == nil) == (status == .ok))
  }

  // R-CPU-06
  @Test func demotionSaysWhetherItCanBeUndone() throws {
    #expect(try Diagnosis(fine).finding("Demotion").found.contains("nice 5"))
    #expect(try Diagnosis(fine).finding("Demotion").found.contains("undone when it blocks"))
    let user = try Diagnosis(unprivileged).finding("Demotion")
    #expect(user.status == .degraded)
    #expect(user.found.hasPrefix("the slice goes from 100 µs to 20 ms first"))
    let old = changed(unprivileged) { $0.privileges.canSetSlice = false }
    #expect(try old.finding("Demotion").found.hasPrefix("nothing at first"))
  }

  // R-CPU-10
  @Test func raisingWaitsForTheNextJobWithoutPrivilege() throws {
    #expect(try Diagnosis(fine).status("Raising") == .ok)
    let user = try Diagnosis(unprivileged).finding("Raising")
    #expect(user.status == .degraded && user.found.contains("next job"))
  }

  @Test func aProgramUnderNiceIsToldSo() throws {
    let nice = changed(unprivileged) { $0.privileges.baseNice = 10 }
    let foreground = try nice.finding("Foreground")
    #expect(foreground.status == .degraded && foreground.found == "SCHED_OTHER, nice 10, slice 100 µs")
    #expect(foreground.cost?.contains("nice 10") == true && foreground.remedy != nil)
    #expect(try nice.finding("Demotion").found.contains("nice 17 to 19"))
    let lowest = changed(unprivileged) { $0.privileges.baseNice = 19 }
    #expect(try lowest.finding("Demotion").found.hasPrefix("by the slice alone"))
    let privileged = changed(fine) { $0.privileges.baseNice = 5 }
    #expect(
      try privileged.status("Raising") == .ok && privileged.finding("Demotion").found.contains("nice 10"))
  }

  /// A CPU cgroup without a real-time budget refuses even those who have the capability.
  @Test func whoHasTheCapabilityIsNotToldToGetIt() throws {
    let privileged = try changed(fine) { $0.privileges.canUseRR = false }.finding("User")
    #expect(privileged.status == .degraded && privileged.remedy == "See Real-time class.")
    #expect(try Diagnosis(unprivileged).finding("User").remedy?.contains("CAP_SYS_NICE") == true)
  }

  @Test func aRealTimeForegroundIsSaidToBePossibleOrNot() throws {
    #expect(try Diagnosis(fine).status("Real-time foreground") == .ok)
    // Three priorities: workers, servers, the monitor.
    let low = changed(unprivileged) {
      $0.privileges.canUseRR = true
      ($0.realTimePriorityMax, $0.realTimeLimit) = (2, 2)
    }
    #expect(try low.status("Real-time foreground") == .missing)
    let enough = changed(unprivileged) {
      $0.privileges.canUseRR = true
      ($0.realTimePriorityMax, $0.realTimeLimit) = (3, 3)
    }
    #expect(try enough.status("Real-time foreground") == .ok)
    let kit = changed(unprivileged) { $0.realtimeKit = RealtimeKit.Answer(isGranted: true, reason: "") }
    #expect(try kit.status("Real-time foreground") == .degraded)
    let none = changed(unprivileged) {
      $0.realtimeKit = RealtimeKit.Answer(isGranted: false, reason: "there is no system bus of D-Bus")
    }
    let finding = try none.finding("Real-time foreground")
    #expect(finding.status == .missing && finding.found.contains("no system bus"))
    #expect(finding.remedy?.contains("rtkit") == true)
  }

  @Test func realTimeFollowsWhatIsAllowed() throws {
    // By limits: SCHED_RR up to 10.
    let limited = changed(unprivileged) {
      $0.privileges.canUseRR = true
      ($0.realTimePriorityMax, $0.realTimeLimit) = (10, 10)
    }
    #expect(try limited.finding("Real-time").found.hasPrefix("SCHED_RR, priorities 1 to 10"))
    #expect(try limited.status("Real-time") == .degraded)
    // Nice only: the pool uses -10 where the limit goes as far.
    let nice = changed(unprivileged) {
      $0.privileges.canRaise = true
      $0.niceLimit = -10
    }
    #expect(try nice.finding("Real-time").found.hasPrefix("SCHED_OTHER, nice -10"))
    let lessNice = changed(unprivileged) {
      $0.privileges.canRaise = true
      $0.niceLimit = 0
    }
    #expect(try lessNice.finding("Real-time").found.hasPrefix("as the foreground"))
    // A cgroup without a budget refuses even root.
    let group = changed(fine) { $0.privileges.canUseRR = false }
    #expect(try group.finding("Real-time class").remedy?.contains("cpu.rt_runtime_us") == true)
  }

  @Test(
    arguments: [
      (950_000, Diagnosis.Status.ok, "950 ms of each 1 s"), (-1, .degraded, "not throttled"),
      (0, .missing, "no CPU time"), (nil, .ok, "unknown"),
    ] as [(Int?, Diagnosis.Status, String)])
  func throttlingIsExplained(runtime: Int?, status: Diagnosis.Status, text: String) throws {
    let finding = try changed(fine) { $0.realTimeRuntime = runtime }.finding("Real-time class")
    #expect(finding.status == status && finding.found.contains(text))
  }

  @Test(
    arguments: [
      (0, 8, Diagnosis.Status.ok, "none"), (1500, 2, .degraded, "1.5 CPUs by the cgroup; 2 workers run"),
      (250, 1, .degraded, "0.25 CPUs by the cgroup; 1 worker runs"), (8000, 8, .ok, "8 CPUs, no less"),
    ] as [(UInt64, Int, Diagnosis.Status, String)])
  func cpuLimitIsToldInCPUs(quota: UInt64, width: Int, status: Diagnosis.Status, text: String) throws {
    let finding = try changed(fine) { ($0.quotaMilli, $0.width) = (quota, width) }.finding("CPU limit")
    #expect(finding.status == status && finding.found.hasPrefix(text))
  }

  @Test func autogroupIsATrapOnlyWhereItIsOn() throws {
    #expect(try changed(fine) { $0.autogroup = true }.status("Autogroups") == .degraded)
    #expect(try changed(fine) { $0.autogroup = nil }.status("Autogroups") == .ok)
  }

  @Test(arguments: [
    ("6.12.0", Diagnosis.Status.ok), ("6.11.9-1-generic", .degraded), ("5.15.0", .degraded), ("7.0-rc1", .ok),
    ("unknown", .ok),
  ])
  func slicesDecideAboutTheKernel(release: String, status: Diagnosis.Status) throws {
    #expect(try changed(fine) { $0.kernel = release }.status("Kernel") == status)
  }

  struct Refusal: Sendable, CustomTestStringConvertible {
    var error = EPERM
    var setting: Int?
    var isFiltered: Bool?
    var isAdministrator = false
    let found: String
    let remedies: [String]
    var testDescription: String { found }
  }

  /// The setting and a filter are told apart, and each has its own remedy.
  @Test(arguments: [
    Refusal(setting: 2, isFiltered: false, found: "kernel.io_uring_disabled is 2", remedies: ["echo 0"]),
    Refusal(
      setting: 2, isFiltered: true, isAdministrator: true, found: "disabled is 2", remedies: ["echo 0"]),
    Refusal(setting: 1, isFiltered: false, found: "disabled is 1", remedies: ["echo 0", "io_uring_group"]),
    Refusal(
      setting: 1, isFiltered: true, isAdministrator: true, found: "seccomp", remedies: ["SystemCallFilter"]),
    Refusal(setting: 0, isFiltered: true, found: "a seccomp filter refuses it", remedies: ["io_uring_setup"]),
    Refusal(
      setting: nil, isFiltered: true, found: "a seccomp filter refuses it", remedies: ["io_uring_setup"]),
    Refusal(
      error: EACCES, setting: 0, isFiltered: false, found: "neither",
      remedies: ["Let the security module (SELinux, BPF) permit it."]),
    Refusal(setting: nil, isFiltered: nil, found: "not permitted", remedies: ["echo 0", "io_uring_setup"]),
    Refusal(
      error: ENOSYS, setting: 0, isFiltered: true, found: "a seccomp filter hides it",
      remedies: ["io_uring_setup"]),
    Refusal(
      error: ENOSYS, setting: nil, isFiltered: false, found: "the kernel has none",
      remedies: ["CONFIG_IO_URING"]),
    Refusal(
      error: ENOSYS, setting: nil, isFiltered: true, found: "none, or a seccomp filter",
      remedies: ["CONFIG_IO_URING", "io_uring_setup"]),
  ])
  func refusedRingsSayWhoRefuses(_ refusal: Refusal) throws {
    let finding = try changed(fine) {
      ($0.ringError, $0.ringsDisabled, $0.hasSeccompFilter) = (
        refusal.error, refusal.setting, refusal.isFiltered
      )
      $0.hasSysAdmin = refusal.isAdministrator
    }.finding("io_uring")
    #expect(finding.status == .missing && finding.found.contains(refusal.found), "\(finding)")
    for remedy in [
      "echo 0", "io_uring_setup", "CONFIG_IO_URING", "Let the security module (SELinux, BPF) permit it.",
      "io_uring_group", "SystemCallFilter",
    ] {
      let isSaid = finding.remedy?.contains(remedy) == true
      if refusal.remedies.contains(remedy) { #expect(isSaid, "\(remedy): \(finding)") }
      // What comes with another is no remedy of its own.
      if !["io_uring_group", "SystemCallFilter", "io_uring_setup"].contains(remedy) {
        #expect(isSaid == refusal.remedies.contains(remedy), "\(remedy): \(finding)")
      }
    }
    if !refusal.found.contains("seccomp"), refusal.isFiltered != nil {
      #expect(finding.remedy?.contains("io_uring_setup") == false)
    }
    #expect(finding.cost?.contains("FIFO") == true)
  }

  @Test func refusalsOfOtherKindsHaveTheirs() throws {
    #expect(try changed(fine) { $0.ringError = EINVAL }.finding("io_uring").remedy == nil)
    #expect(
      try changed(fine) { $0.ringError = ENOMEM }.finding("io_uring").remedy?.contains("ulimit -l") == true)
  }

  /// The kernel asks for the machine's CAP_SYS_NICE, which nobody in a user namespace has.
  @Test func rootOfAUserNamespaceIsNotToldToTakeACapability() throws {
    let inside = changed(unprivileged) { ($0.userID, $0.hasSysNice, $0.hasOwnUsers) = (0, true, true) }
    let user = try inside.finding("User")
    #expect(user.status == .degraded && user.found == "root of a user namespace, CAP_SYS_NICE only there")
    #expect(user.remedy?.hasPrefix("CAP_SYS_NICE of a user namespace does not count") == true)
    #expect(
      user.remedy?.contains("LimitNICE") == true && user.remedy?.contains("AmbientCapabilities") == false)
    #expect(try inside.finding("Real-time class").remedy == "See User.")
    // A raised limit counts there too.
    let limited = changed(unprivileged) {
      ($0.hasSysNice, $0.hasOwnUsers, $0.niceLimit) = (true, true, 0)
      $0.privileges.canRaise = true
    }
    #expect(try limited.finding("Real-time").found.hasPrefix("as the foreground"))
    let group = changed(unprivileged) { ($0.hasSysNice, $0.hasOwnUsers, $0.realTimeLimit) = (true, true, 50) }
    #expect(try group.finding("Real-time class").remedy?.contains("cpu.rt_runtime_us") == true)
    #expect(
      try changed(unprivileged) { $0.userID = 0 }.finding("User").remedy?.contains("AmbientCapabilities")
        == true)
  }

  @Test func runtimeWithoutHooksCostsAttribution() throws {
    let bare = changed(fine) { ($0.hasEnqueueHook, $0.hasTaskIDs) = (false, false) }
    #expect(try bare.finding("Enqueue hook").found.contains("swift_task_enqueueGlobal_hook"))
    #expect(try bare.finding("Task ids").found.contains("swift_task_getJobTaskId"))
    #expect(try changed(fine) { $0.knowsJobLayout = false }.status("Task ids") == .missing)
  }

  /// It hands Dispatch nothing, which would end a program that has no /proc.
  @Test func theRuntimesTaskIsLookedAtAndRunOnTheCallersThread() {
    let threads = Record<Int32>()
    #expect(RuntimeProbe.look { threads.add(opp_thread_id()) } == RuntimeProbe.knowsJobLayout)
    #expect(threads.values == [opp_thread_id()])
  }

  @Test func withoutProcThingsAreUnknown() throws {
    let bare = changed(fine) { ($0.hasProc, $0.autogroup) = (false, nil) }
    #expect(try bare.status("/proc") == .missing)
    #expect(try bare.finding("Autogroups").found == "unknown")
    #expect(try bare.finding("CPU limit").found.hasPrefix("unknown"))
  }

  @Test func capabilitiesAreReadFromStatus() {
    let status = "Name:\tx\nCapEff:\t0000000000800000\nCapBnd:\t0\n"
    #expect(Capability.sysNice.isEffective(inStatus: status) == true)
    #expect(Capability.ipcLock.isEffective(inStatus: status) == false)
    #expect(Capability.sysNice.isEffective(inStatus: "Name:\tx\n") == nil)
  }

  /// On this machine, whatever it is.
  @Test func thisMachineIsDiagnosed() throws {
    let diagnosis = Diagnosis.run()
    #expect(try diagnosis.finding("Kernel").found.hasPrefix("Linux "))
    #expect(try diagnosis.finding("CPUs").found.first?.isNumber == true)
    #expect(try diagnosis.status("Task ids") == .ok, "this runtime is known to have them")
    let privileges = KernelPrivileges.probe()
    #expect(try (diagnosis.status("Raising") == .ok) == privileges.canRaise)
    #expect(try (diagnosis.status("Slices") == .ok) == privileges.canSetSlice)
  }
}

@Suite(.bounded) struct DiagnosisTextTests {
  private let long = Diagnosis(findings: [
    .init(.system, "Kernel", .ok, found: "Linux"),
    .init(
      .pools, "Demotion", .degraded, found: String(repeating: "word ", count: 60) + "20 ms",
      cost: String(repeating: "cost ", count: 60), remedy: "mend it"),
  ])

  @Test(arguments: [60, 61, 62, 63, 64, 80, 100])
  func linesFit(columns: Int) {
    let lines = long.text(columns: columns).split(separator: "\n")
    #expect(lines.allSatisfy { $0.count <= columns })
    #expect(lines.contains { $0.hasSuffix("20 ms") }, "a number stays with its unit")
  }

  @Test func columnsAreAligned() throws {
    let lines = long.text(columns: 80).split(separator: "\n")
    let kernel = try #require(lines.first { $0.contains("Linux") })
    let demotion = try #require(lines.first { $0.contains("Demotion") })
    let at = try #require(kernel.range(of: "Linux")).lowerBound
    let word = try #require(demotion.range(of: "word")).lowerBound
    #expect(
      kernel.distance(from: kernel.startIndex, to: at)
        == demotion.distance(from: demotion.startIndex, to: word))
    #expect(lines.last == "1 ok, 1 degraded, 0 missing")
  }

  @Test func whatIsFoundCannotSteerTheTerminal() {
    let finding = Diagnosis.Finding(
      .system, "a\u{1B}[2J", .ok, found: "b\nc\u{202E} d", cost: "\u{9B}", remedy: "\u{7}")
    let text = Diagnosis(findings: [finding]).text(usesColor: false)
    #expect(
      text.contains(#"a\u{1B}[2J  b\nc\u{202E} d"#) && text.contains(#"\u{9B}"#) && text.contains(#"\u{7}"#))
  }

  @Test func coloursAreOnlyForTerminals() {
    #expect(!long.text().contains("\u{1B}"))
    #expect(long.text(usesColor: true).contains("\u{1B}[33mdegraded\u{1B}[0m"))
  }

  @Test func jsonSurvivesARoundTrip() throws {
    let data = try JSONEncoder().encode(long)
    #expect(try JSONDecoder().decode(Diagnosis.self, from: data) == long)
    #expect(String(decoding: data, as: UTF8.self).contains("\"status\":\"degraded\""))
  }
}
