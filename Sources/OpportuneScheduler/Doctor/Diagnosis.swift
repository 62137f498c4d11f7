/// What Opportune finds on this machine, what each thing that is worse than it could be costs, and how to
/// mend it.
///
/// `opportune doctor` prints it; a program may keep it in its own log. A value: safe to use from any thread.
///
///     for finding in Diagnosis.run().findings where finding.status != .ok {
///       print(finding.subject, finding.found)
///     }
public struct Diagnosis: Sendable, Hashable, Codable {
  /// What a finding is about.
  public enum Area: String, Sendable, Hashable, Codable, CaseIterable {
    /// Kernel, user and what the process may see.
    case system
    /// CPUs, nodes and limits on them.
    case processors
    /// What the kernel's scheduler offers.
    case priorities
    /// Which kernel class each pool gets here, and how work moves between them.
    case pools
    /// How CPU time and blocking are told.
    case accounting
    /// How memory is given back, watched and saved.
    case memory
    /// Files and sockets.
    case io
    /// The Swift runtime.
    case runtime
    /// What a scheduler did that was started to see.
    case selfTest
  }

  /// How well it is.
  public enum Status: String, Sendable, Hashable, Codable, CaseIterable {
    /// As good as it gets.
    case ok
    /// It works, with a cost.
    case degraded
    /// It is not there.
    case missing
  }

  /// One thing that was looked at.
  public struct Finding: Sendable, Hashable, Codable {
    /// What it is about.
    public var area: Area
    /// What was looked at, in a word or two.
    public var subject: String
    /// How well it is.
    public var status: Status
    /// What was found.
    public var found: String
    /// What follows from it, where something does.
    public var cost: String?
    /// How to mend it, where one can.
    public var remedy: String?

    /// A finding of one's own, to be printed with the others.
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

  /// In the order in which they are to be read, areas together.
  public var findings: [Finding]

  /// A diagnosis of findings that are known already.
  package init(findings: [Finding]) {
    self.findings = findings
  }

  /// Looks at this machine, as this process sees it. Reads, and tries priorities on a thread that ends
  /// afterwards; changes nothing. Takes a few milliseconds, and blocks meanwhile.
  public static func run(configuration: SchedulerConfiguration = SchedulerConfiguration()) -> Diagnosis {
    Diagnosis(SystemFacts.read(), configuration: configuration)
  }

  /// Adds findings of areas that ``run(configuration:)`` does not look at, or not alone, each at the end of
  /// its area.
  package mutating func add(_ more: [Finding]) {
    let order = Area.allCases
    for finding in more {
      let rest = order.drop { $0 != finding.area }.dropFirst()
      findings.insert(finding, at: findings.firstIndex { rest.contains($0.area) } ?? findings.endIndex)
    }
  }

  /// How many findings have `status`.
  package func count(_ status: Status) -> Int {
    findings.count { $0.status == status }
  }
}
