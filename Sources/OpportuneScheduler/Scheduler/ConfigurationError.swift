internal import OpportuneBase

/// Why a configuration was refused: the setting, its value, and what was expected.
///
/// Two errors are equal when their codes are; value and expectation are for people. More codes may be added
/// later.
public struct ConfigurationError: Error, Sendable, Equatable {
  /// The setting that was refused.
  public struct Code: Sendable, Hashable, CustomStringConvertible {
    private enum Setting: String {
      case bands, overlap, quantum, step, blockingGap, offCPUShare, workers, pools
      case demotedLimitPerCore, spareDelay, timerTolerance, maximumApps, name, targetP99
      case realTimeQuantum, realTimeShare
    }

    private let setting: Setting
    private init(_ setting: Setting) { self.setting = setting }

    /// ``SchedulerConfiguration/bands``: the ranges of the bands do not fit together.
    public static let bands = Code(.bands)
    /// The overlap: the number of levels that background and foreground share.
    public static let overlap = Code(.overlap)
    /// ``QuantumPolicy/quantum``.
    public static let quantum = Code(.quantum)
    /// ``QuantumPolicy/step``.
    public static let step = Code(.step)
    /// ``QuantumPolicy/blockingGap``.
    public static let blockingGap = Code(.blockingGap)
    /// ``QuantumPolicy/offCPUShare``.
    public static let offCPUShare = Code(.offCPUShare)
    /// ``SchedulerConfiguration/workers-swift.property``.
    public static let workers = Code(.workers)
    /// ``SchedulerConfiguration/pools``.
    public static let pools = Code(.pools)
    /// ``SchedulerConfiguration/demotedLimitPerCore``.
    public static let demotedLimitPerCore = Code(.demotedLimitPerCore)
    /// ``SchedulerConfiguration/spareDelay``.
    public static let spareDelay = Code(.spareDelay)
    /// ``SchedulerConfiguration/timerTolerance``.
    public static let timerTolerance = Code(.timerTolerance)
    /// ``SchedulerConfiguration/maximumApps``.
    public static let maximumApps = Code(.maximumApps)
    /// ``SchedulerConfiguration/name``.
    public static let name = Code(.name)
    /// ``AppTarget/p99``.
    public static let targetP99 = Code(.targetP99)
    /// The quantum of ``ForegroundClass/realTime(quantum:share:)``.
    public static let realTimeQuantum = Code(.realTimeQuantum)
    /// The share of ``ForegroundClass/realTime(quantum:share:)``.
    public static let realTimeShare = Code(.realTimeShare)

    /// The setting's name in the source.
    public var description: String { setting.rawValue }
  }

  /// The setting that was refused.
  public let code: Code

  /// The value that was refused, as text.
  public let value: String

  /// What would have been accepted, as text.
  public let expected: String

  init(_ code: Code, value: some CustomStringConvertible, expected: String) {
    self.code = code
    self.value = value.description
    self.expected = expected
  }

  /// Whether both refuse the same setting; their values may differ.
  public static func == (lhs: ConfigurationError, rhs: ConfigurationError) -> Bool { lhs.code == rhs.code }
}

extension ConfigurationError: CustomStringConvertible {
  /// One sentence for people that names the setting, the value and the limit.
  public var message: String { "\(code) is \(value); expected \(expected)" }

  public var description: String { message }
}

/// Throws an error that names value and range unless `range` contains `value`. Not-a-number is never in
/// range.
func requireInRange<Value: Comparable>(
  _ value: Value, _ range: ClosedRange<Value>, _ code: ConfigurationError.Code
) throws(ConfigurationError) {
  guard range.contains(value) else {
    throw ConfigurationError(code, value: "\(value)", expected: "\(range.lowerBound) to \(range.upperBound)")
  }
}

/// The same for times, which it names in units that fit.
func requireInRange(
  _ value: Duration, _ range: ClosedRange<Duration>, _ code: ConfigurationError.Code
) throws(ConfigurationError) {
  guard range.contains(value) else {
    let expected = "\(range.lowerBound.inUnits) to \(range.upperBound.inUnits)"
    throw ConfigurationError(code, value: value.inUnits, expected: expected)
  }
}
