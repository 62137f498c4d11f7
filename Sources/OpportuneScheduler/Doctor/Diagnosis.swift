/// What Opportune finds on this machine: for each thing that is not optimal, its cost and a remedy.
///
/// `opportune doctor` prints it; a program may write it to its own log. A value: safe to use from any thread.
///
///     for finding in Diagnosis.run().findings where finding.status != .ok {
///       print(finding.subject, finding.found)
///     }
public struct Diagnosis: Sendable, Hashable, Codable {
  /// The subject area of a finding.
  public enum Area: String, Sendable, Hashable, Codable, CaseIterable {
    /// Kernel, user and visible parts of the system.
    case system
    /// CPUs, nodes and limits on them.
    case processors
    /// What the kernel's scheduler offers.
    case priorities
    /// The kernel class of each pool here, and how work moves between them.
    case pools
    /// How CPU time and blocking are measured.
    case accounting
    /// How memory is released, watched and saved.
    case memory
    /// Files and sockets.
    case io
    /// The Swift runtime.
    case runtime
    /// The behaviour of a scheduler that was started as a test.
    case selfTest
  }

  /// The rating of a finding.
  public enum Status: String, Sendable, Hashable, Codable, CaseIterable {
    /// Optimal.
    case ok
    /// It works, at a cost.
    case degraded
    /// It is missing.
    case missing
  }

  /// One aspect of the machine.
  public struct Finding: Sendable, Hashable, Codable {
    /// The subject area.
    public var area: Area
    /// The subject, in a word or two.
    public var subject: String
    /// The rating.
    public var status: Status
    /// What was found.
    public var found: String
    /// The consequence, where there is one.
    public var cost: String?
    /// The remedy, where there is one.
    public var remedy: String?

    /// Makes a finding, to be printed with the others.
    package init(
      _ area: Area, _ subject: String, _ status: Status, found: String, cost: String? = nil,
      remedy: String? = nil
    ) {
      self.area = area
      self.subject = subject
      self.status = status
      self.found = found
      self.cost = cost
      self.remedy = remedy
    }
  }

  /// The findings in reading order, grouped by area.
  public var findings: [Finding]

  /// Makes a diagnosis of existing findings.
  package init(findings: [Finding]) {
    self.findings = findings
  }

  /// Examines this machine, as this process sees it.
  ///
  /// It reads files, and tries priorities on a temporary thread; it changes nothing. It blocks for a few
  /// milliseconds.
  public static func run(configuration: SchedulerConfiguration = SchedulerConfiguration()) -> Diagnosis {
    Diagnosis(SystemFacts.read(), configuration: configuration)
  }

  /// Adds findings of areas that ``run(configuration:)`` covers only in part or not at all, each at the end
  /// of its area.
  package mutating func add(_ more: [Finding]) {
    let order = Area.allCases
    for finding in more {
      let rest = order.drop { $0 != finding.area }.dropFirst()
      findings.insert(finding, at: findings.firstIndex { rest.contains($0.area) } ?? findings.endIndex)
    }
  }

  /// The number of findings with `status`.
  package func count(_ status: Status) -> Int {
    findings.count { $0.status == status }
  }
}
