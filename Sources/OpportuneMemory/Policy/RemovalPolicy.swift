internal import OpportuneBase

/// An app as the removal policy sees it.
public struct RemovalCandidate: Sendable, Hashable {
  /// The caller's number for the app.
  public var app: UInt32
  /// The app's name, for people.
  public var name: String
  /// The app's standing.
  public var standing: AppStanding
  /// Bytes that removing the app releases: dirty, wired, and purgeable memory that is held.
  public var footprint: UInt64
  /// Nanoseconds since the app was last in the foreground, or was made. Not negative.
  public var idle: UInt64
  /// Whether the app was ever in the foreground.
  public var wasInFront: Bool
  /// Bytes of the footprint that hibernation may have to write; excludes what can be made again.
  public var written: UInt64

  /// - Parameter written: `nil` is the whole footprint.
  public init(
    app: UInt32, name: String, standing: AppStanding, footprint: UInt64, idle: UInt64, written: UInt64? = nil,
    wasInFront: Bool = true
  ) {
    self.app = app
    self.name = name
    self.standing = standing
    self.footprint = footprint
    self.idle = idle
    self.wasInFront = wasInFront
    self.written = written ?? footprint
  }
}

/// An app to remove, the method, and the reason.
public struct Removal: Sendable, Hashable, CustomStringConvertible {
  /// How the app is removed. (R-MEM-04)
  public enum Method: String, Sendable, Hashable, CaseIterable, Codable {
    /// Its state is saved to the store.
    case hibernate
    /// It is terminated.
    case terminate
  }

  /// The app's ``AppMemory/number``.
  public let app: UInt32
  /// How the app is removed.
  public let method: Method
  /// A sentence that answers "why was this app removed?".
  public let reason: String
  /// Memory is not short: if the app cannot be removed by this method, it stays. (R-MEM-08)
  public let isOptional: Bool
  /// ``AppMemory/rises`` when the broker chose the app; `nil` for a removal that was not chosen by standing.
  package var rises: UInt64?

  /// Makes a removal, for a policy of your own.
  public init(app: UInt32, method: Method, reason: String, isOptional: Bool = false) {
    self.app = app
    self.method = method
    self.reason = reason
    self.isOptional = isOptional
  }

  public var description: String { reason }
}

/// The policy that chooses the app to remove when memory is short: pure, and replaceable. (R-MEM-09)
public protocol RemovalChoosing: Sendable {
  /// The next app to remove from `candidates`, while `excess` bytes of `reading` must be released; `nil`
  /// where none may be removed.
  func choose(_ candidates: [RemovalCandidate], excess: UInt64, reading: MemoryReading) -> Removal?

  /// Apps to remove independently of pressure. (R-MEM-08)
  func overdue(_ candidates: [RemovalCandidate]) -> [Removal]

  /// How long after an app's suspension a host calls `overdue`; `nil`, the default, is never.
  var idleLimit: Duration? { get }
}

extension RemovalChoosing {
  public var idleLimit: Duration? { nil }
}

/// The default removal policy. (R-MEM-04, R-MEM-08 to R-MEM-14)
///
/// Apps are removed in the order of ``AppStanding``: suspended, background, tracking, audio, inactive; the
/// active app never. Within a standing, heavy apps are removed first, the largest of them before the others;
/// all others by ``order``.
public struct RemovalPolicy: RemovalChoosing, Hashable {
  /// The order within a standing.
  public enum Order: Sendable, Hashable, CaseIterable {
    /// By the time since the app was in the foreground, or was launched if it never was. (R-MEM-09)
    case leastRecentlyUsed
    /// By the bytes held. (R-MEM-09, R-MEM-13)
    case largest
    /// By bytes × time since the app was in the foreground. (R-MEM-14)
    case largestForLongest
  }

  /// The order within a standing.
  public var order: Order = .leastRecentlyUsed
  /// The share of all memory, 0 to 1, from which on an app that is not in the foreground is heavy. `nil`:
  /// none is heavy. (R-MEM-13)
  public var heavyShare: Double? = 0.25
  /// Whether apps may be hibernated; if not, they are terminated. (R-MEM-04)
  public var hibernates = true
  /// The limit of bytes to write, up to which an app is hibernated. An app with more to write is terminated.
  /// 8, 16 or 32 MB are customary. (R-MEM-10)
  public var hibernatesUpTo: UInt64 = 32_000_000
  /// The time since the foreground after which suspended apps are hibernated even without pressure. Apps that
  /// would have to be terminated stay until memory is short: otherwise they would lose their state without
  /// need. `nil`: never. (R-MEM-08)
  public var idleLimit: Duration?
  /// When memory is short, one app for each so many free bytes may continue to track the location. Further
  /// ones count as ordinary background apps, least recently used first. `nil`: all may, until tracking apps
  /// are removed in turn. (R-MEM-12)
  public var bytesPerTrackingApp: UInt64?

  /// Makes a policy of the defaults.
  public init() {}

  /// Checks every setting.
  ///
  /// - Throws: ``MemoryError`` with code `configuration`, for the first setting that is out of range.
  public func validate() throws(MemoryError) {
    if let heavyShare, !(heavyShare > 0 && heavyShare <= 1) {
      throw .range("removal.heavyShare", heavyShare, "above 0, at most 1")
    }
    if let idleLimit, idleLimit <= .zero { throw .range("removal.idleLimit", "\(idleLimit)", "more than 0") }
    if bytesPerTrackingApp == 0 { throw .range("removal.bytesPerTrackingApp", 0, "more than 0") }
  }

  public func choose(_ candidates: [RemovalCandidate], excess: UInt64, reading: MemoryReading) -> Removal? {
    guard let (victim, rule) = victim(of: candidates, reading) else { return nil }
    let why =
      "\(excess.inMegabytes) had to go of \(reading.inUse.inMegabytes) in use; among apps that were "
      + "\(victim.standing), \(rule)"
    return removal(of: victim, why)
  }

  /// The app to remove, and why that one: what is said of it among those of its standing.
  package func victim(
    of candidates: [RemovalCandidate], _ reading: MemoryReading
  ) -> (app: RemovalCandidate, rule: String)? {
    let surplus = surplusTracking(candidates, reading)
    let removable = candidates.filter { $0.standing != .active && $0.standing != .gone && $0.footprint > 0 }
    guard let victim = removable.min(by: { ranks($0, before: $1, surplus, reading.capacity) }) else {
      return nil
    }
    let isHeavy = isHeavy(victim, reading.capacity)
    let rule =
      if surplus.contains(victim.app) {
        "\(reading.free.inMegabytes) free are too few for it to go on tracking"
      } else if isHeavy {
        "it held \((heavyShare ?? 0).inPercent) of memory or more"
      } else {
        switch order {
        case .leastRecentlyUsed where victim.wasInFront: "it was in front longest ago"
        case .leastRecentlyUsed: "it was unused longest, and never in front"
        case .largest: "it held most"
        case .largestForLongest: "it held most for longest"
        }
      }
    return (victim, rule)
  }

  public func overdue(_ candidates: [RemovalCandidate]) -> [Removal] {
    guard let idleLimit else { return [] }
    let limit = idleLimit.unsignedNanoseconds
    return candidates.filter { $0.standing == .suspended && $0.idle > limit }
      .map { removal(of: $0, "it was not in front for more than \(idleLimit)", isOptional: true) }
      .filter { $0.method == .hibernate }
  }

  // MARK: Steps

  private func removal(of app: RemovalCandidate, _ why: String, isOptional: Bool = false) -> Removal {
    // An app that runs would have to be suspended first.
    let method: Removal.Method
    let how: String
    switch (hibernates, app.standing, app.written <= hibernatesUpTo) {
    case (false, _, _): (method, how) = (.terminate, "no app is hibernated")
    case (true, .suspended, true):
      (method, how) = (.hibernate, "at most \(hibernatesUpTo.inMegabytes) are hibernated")
    case (true, .suspended, false):
      (method, how) = (.terminate, "more than \(hibernatesUpTo.inMegabytes) are not hibernated")
    case (true, _, _): (method, how) = (.terminate, "only suspended apps are hibernated")
    }
    let verb = method == .hibernate ? "hibernated" : "terminated"
    let rest = app.written < app.footprint ? ", \(app.written.inMegabytes) of it not to be made again" : ""
    let size = app.footprint.inMegabytes + rest
    return Removal(
      app: app.app, method: method,
      reason: "\(app.name) was \(verb), \(app.standing) with \(size), because \(why); \(how).",
      isOptional: isOptional)
  }

  private func isHeavy(_ app: RemovalCandidate, _ capacity: UInt64) -> Bool {
    guard let heavyShare, !app.standing.isForeground else { return false }
    return Double(app.footprint) >= heavyShare * Double(capacity)
  }

  private func ranks(
    _ left: RemovalCandidate, before right: RemovalCandidate, _ surplus: Set<UInt32>, _ capacity: UInt64
  ) -> Bool {
    func standing(_ app: RemovalCandidate) -> AppStanding {
      surplus.contains(app.app) ? .background : app.standing
    }
    if standing(left) != standing(right) { return standing(left) < standing(right) }
    let (heavyLeft, heavyRight) = (isHeavy(left, capacity), isHeavy(right, capacity))
    if heavyLeft != heavyRight { return heavyLeft }
    // Ties go to the lower number, so that the same input always gives the same result.
    if heavyLeft, left.footprint != right.footprint { return left.footprint > right.footprint }
    switch order {
    case .leastRecentlyUsed: if left.idle != right.idle { return left.idle > right.idle }
    case .largest: if left.footprint != right.footprint { return left.footprint > right.footprint }
    case .largestForLongest:
      let (a, b) = (
        left.footprint.multipliedFullWidth(by: left.idle), right.footprint.multipliedFullWidth(by: right.idle)
      )
      if a != b { return (a.high, a.low) > (b.high, b.low) }
    }
    return left.app < right.app
  }

  private func surplusTracking(_ candidates: [RemovalCandidate], _ reading: MemoryReading) -> Set<UInt32> {
    guard let bytesPerTrackingApp else { return [] }
    let tracking = candidates.filter { $0.standing == .tracking }
    let allowed = Int(clamping: reading.free / bytesPerTrackingApp)
    guard tracking.count > allowed else { return [] }
    let byIdle = tracking.sorted { ($0.idle, $1.app) > ($1.idle, $0.app) }
    return Set(byIdle.prefix(tracking.count - allowed).map(\.app))
  }
}

extension UInt64 {
  /// The bytes in MB with one decimal, for messages.
  package var inMegabytes: String {
    guard self == 0 || self >= 50_000 else { return "less than 0.1 MB" }
    let tenths = self / 100_000 + (self % 100_000 >= 50_000 ? 1 : 0)
    return tenths % 10 == 0 ? "\(tenths / 10) MB" : "\(tenths / 10).\(tenths % 10) MB"
  }
}

extension Double {
  /// The share in percent, for messages.
  package var inPercent: String { "\(Int((self * 100).rounded())) %" }
}
