internal import COpportune
import Synchronization

/// What the monitor and the statistics know of an app without keeping it alive. Not a weak reference: the first of
/// those would make every retain and release of the app, several for each of its jobs, take the runtime's slow way.
final class AppRecord: @unchecked Sendable {
  let name: String
  let number: UInt64
  /// Its places in the run queue. Once the app is gone another may be there; their memory stays until the engine goes.
  let place: OpaquePointer
  let runner: OpaquePointer
  let statistics: StatisticsBlock
  private let gone = Atomic<Bool>(false)

  init(name: String, number: UInt64, place: OpaquePointer, runner: OpaquePointer, statistics: StatisticsBlock) {
    self.name = name
    self.number = number
    self.place = place
    self.runner = runner
    self.statistics = statistics
  }

  // relaxed: who misses it sees the app's last numbers once more.
  var isGone: Bool { gone.load(ordering: .relaxed) }
  func retire() { gone.store(true, ordering: .relaxed) }

  var band: Band { Band(rawValue: opp_app_state_read(place).band) ?? .background }
}
