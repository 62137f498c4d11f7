import Opportune

/// An operation done our way and a rival's: each closure does it so many times and returns when all are
/// finished.
///
/// Both are set up beforehand, so that what is done once is not measured. For one task at a time.
public struct Comparison: Sendable {
  /// Does the operation so many times.
  public typealias Way = @Sendable (_ operations: Int) async throws -> Void

  public let ours: Way
  public let rival: Way

  /// A comparison that is set up when it is wanted. The name says what is done, by whom: `spawn_inside_2`.
  public struct Entry: Sendable {
    public let name: String
    public let make: @Sendable () throws -> Comparison

    init(_ name: String, _ make: @escaping @Sendable () throws -> Comparison) {
      self.name = name
      self.make = make
    }
  }

  /// How many operations to ask for at once: so few that the task that does them ends long before it has used
  /// up a quantum of 10 ms. Demotion is another subject.
  public static let batch = 1_000

  /// All that there are.
  public static let all: [Entry] = spawning + hopping + sharing + steps + statistics + reading
}

/// One scheduler and app for a comparison, which keeps both: a scheduler that nobody keeps shuts down.
struct Fixture: Sendable {
  let scheduler: Scheduler
  let app: App

  init(_ change: (inout Scheduler.Configuration) -> Void = { _ in }) throws {
    var configuration = Scheduler.Configuration()
    change(&configuration)
    scheduler = try Scheduler(configuration: configuration)
    app = try scheduler.makeApp(named: "bench")
  }
}
