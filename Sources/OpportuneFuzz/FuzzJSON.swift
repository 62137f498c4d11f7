import FoundationEssentials

/// A report as JSON.
public enum FuzzJSON {
  private struct Document: Encodable {
    struct Failure: Encodable {
      let target: String
      let message: String
      let example: String
      let timeline: String
    }
    let seed: UInt64
    let threads: Int
    let wasInterrupted: Bool
    let selfCheck: [SelfCheck.Result]
    let targets: [TargetOutcome]
    let finding: Failure?
  }

  /// - Throws: what `JSONEncoder` throws, which it has no reason to.
  public static func encode(_ report: FuzzReport) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    let document = Document(
      seed: report.seed, threads: report.threads, wasInterrupted: report.wasInterrupted,
      selfCheck: report.selfCheck, targets: report.outcomes,
      finding: report.finding.map {
        .init(target: $0.target, message: $0.message, example: $0.example, timeline: $0.timeline)
      })
    return String(decoding: try encoder.encode(document), as: UTF8.self) + "\n"
  }
}
