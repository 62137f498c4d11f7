internal import COpportune
import Foundation

/// Detects that the machine's wall clock was set, or has advanced while the machine slept. (R-MSG-10)
package final class WallClockWatch: Sendable {
  /// `nil` where the kernel has no such alarm: changes are not detected then.
  private let thread: DescriptorThread?

  /// - Parameter wasSet: called on a thread of its own.
  package convenience init(calling wasSet: @escaping @Sendable () -> Void) { self.init(wasSet: wasSet) }

  /// - Parameters:
  ///   - alarm: a descriptor that is readable, without blocking, when the clock was set; closed here. Below
  ///     0: there is none.
  ///   - wasSet: called on a thread of its own.
  init(alarm: Int32 = opp_watch_clock(), wasSet: @escaping @Sendable () -> Void) {
    guard alarm >= 0 else {
      thread = nil
      return
    }
    let each: @Sendable (Bool) -> Bool = { _ in
      var count: UInt64 = 0
      let result = read(alarm, &count, 8)
      guard result > 0 || (result < 0 && [ECANCELED, EAGAIN, EINTR].contains(errno)) else { return false }
      wasSet()
      return true
    }
    thread = DescriptorThread(alarm, each: each)
  }
}

/// Local notifications fire by the machine's wall clock. (R-MSG-09, R-MSG-10)
extension AppHost {
  /// Starts with the first notification, unless the program posts the time itself.
  func followWallClock() {
    guard wallClock == nil, !isToldTheTime else { return }
    wallClock = WallClockWatch { [host = WeakHost(self)] in Task { await host.value?.readWallClock() } }
    readWallClock()
  }

  private func readWallClock() {
    guard !isToldTheTime else { return }
    if let effects = try? system.handle(.wallClock(Date().timeIntervalSince1970), at: clock) {
      carryOut(effects)
    }
    rearm()
  }
}
