import FoundationEssentials

/// A report as JSON, a list of targets, or what an example came to.
package enum FuzzJSON {
  private struct Failure: Encodable {
    let target: String
    let message: String
    let example: String
    let timeline: String

    init(_ finding: Finding) {
      target = finding.target
      message = finding.message
      example = finding.example
      timeline = finding.timeline
    }
  }

  private struct Again: Encodable {
    let finding: Failure?
    let timeline: String
    let misfit: String?
  }

  private struct Listing: Encodable {
    struct Target: Encodable {
      let name: String
      let summary: String
      let isCanary: Bool
    }
    let targets: [Target]
  }

  private struct Document: Encodable {
    let seed: UInt64
    let threads: Int
    let wasInterrupted: Bool
    let selfCheck: [SelfCheck.Result]
    let targets: [TargetOutcome]
    let finding: Failure?
  }

  /// - Throws: what `JSONEncoder` throws, which it has no reason to.
  package static func encode(_ report: FuzzReport) throws -> String {
    try text(
      Document(
        seed: report.seed, threads: report.threads, wasInterrupted: report.wasInterrupted,
        selfCheck: report.selfCheck, targets: report.outcomes, finding: report.finding.map(Failure.init)))
  }

  /// The targets, and what holds of them.
  ///
  /// - Throws: as ``encode(_:)-(FuzzReport)``.
  package static func encode(_ targets: [any FuzzTarget]) throws -> String {
    try text(
      Listing(targets: targets.map { .init(name: $0.name, summary: $0.summary, isCanary: $0.isHidden) }))
  }

  /// What an example that was run again came to: a finding or none, and what it did.
  ///
  /// - Throws: as ``encode(_:)-(FuzzReport)``.
  package static func encode(_ replay: ExampleRun) throws -> String {
    try text(
      Again(finding: replay.finding.map(Failure.init), timeline: replay.timeline, misfit: replay.misfit))
  }

  private static func text(_ document: some Encodable) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(document), as: UTF8.self) + "\n"
  }
}
