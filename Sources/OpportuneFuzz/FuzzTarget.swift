import COpportuneChecked
import COpportuneExplorer

/// A structure of the C core under trial: its operations, and the judge of what it promises.
///
/// `@unchecked Sendable`: it points to a constant of the C side.
public struct FuzzTarget: @unchecked Sendable {
  let raw: UnsafePointer<oppx_target>

  /// What `--target` names it by.
  public var name: String { String(cString: raw.pointee.name) }

  /// Its invariants, in a sentence.
  public var summary: String { String(cString: raw.pointee.summary) }

  /// Whether it is fuzzed only when it is named: the canary, which must fail, and the explorer's own checks.
  public var isHidden: Bool { raw.pointee.hidden }

  /// Every target, in the order of a listing.
  public static let all: [FuzzTarget] = {
    var count = 0
    let list = checked_targets(&count)
    return (0..<count).map { FuzzTarget(raw: list[$0]) }.filter { $0.name != "litmus" }
  }()

  /// - Throws: ``FuzzError/unknownTarget(_:)``.
  public static func named(_ name: String) throws(FuzzError) -> FuzzTarget {
    guard let target = all.first(where: { $0.name == name }) else { throw .unknownTarget(name) }
    return target
  }
}

/// What a caller handed over is wrong.
public enum FuzzError: Error, Equatable, CustomStringConvertible {
  case unknownTarget(String)
  /// An example's text.
  case badExample(String)
  /// The bug that is planted in this canary was not found in time: the fuzzer does not look.
  case blind(String, seconds: Double)
  case noMemory

  public var description: String {
    switch self {
    case .unknownTarget(let name):
      "'\(name)' is not a target; there are \(FuzzTarget.all.map(\.name).joined(separator: ", "))"
    case .badExample(let reason): "the example cannot be read: \(reason)"
    case .blind(let name, let seconds):
      "the bug planted in '\(name)' was not found in \(seconds) s, so finding nothing elsewhere means nothing"
    case .noMemory: "memory is short"
    }
  }
}
