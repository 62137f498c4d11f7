import TestSupport
import Testing

@testable import OpportuneApps

@Suite(.bounded) struct AppTimersTests {
  private let first = AppID(0)
  private let second = AppID(1)

  private func timers() -> AppTimers {
    var timers = AppTimers()
    timers.addApp()
    timers.addApp()
    return timers
  }

  private func popAll(_ timers: inout AppTimers, until moment: Moment, inclusive: Bool = true) -> [String] {
    var popped: [String] = []
    while let (time, kind, app) = timers.pop(until: moment, inclusive: inclusive) {
      popped.append("\(time.seconds) \(kind) \(app)")
    }
    return popped
  }

  @Test func theyAreDueByTimeAndThenAsTheyWereArmed() {
    var timers = timers()
    timers.arm(.grace, of: second, at: .seconds(2))
    timers.arm(.tasks, of: first, at: .seconds(2))
    timers.arm(.fetch, of: first, at: .seconds(1))
    let next = timers.next
    #expect(next == .seconds(1))
    let before = popAll(&timers, until: .seconds(2), inclusive: false)
    #expect(before == ["1.0 fetch app0"])
    let then = popAll(&timers, until: .seconds(2))
    #expect(then == ["2.0 grace app1", "2.0 tasks app0"])
    let last = timers.next
    #expect(last == nil && timers.deadline(.grace, of: second) == nil)
  }

  @Test func whatWasArmedAnewOrNotAtAllComesOnce() {
    var timers = timers()
    timers.arm(.grace, of: first, at: .seconds(1))
    timers.arm(.grace, of: first, at: .seconds(3))
    timers.arm(.slice, of: first, at: .seconds(2))
    timers.disarm(.slice, of: first)
    #expect(timers.deadline(.grace, of: first) == .seconds(3) && timers.deadline(.slice, of: first) == nil)
    let next = timers.next
    #expect(next == .seconds(3))
    let popped = popAll(&timers, until: .seconds(9))
    #expect(popped == ["3.0 grace app0"])
  }

  @Test func whatIsArmedAgainAndAgainIsKeptOnce() {
    var timers = timers()
    for count in 1...1000 { timers.arm(.idle, of: first, at: .seconds(Double(count))) }
    let popped = popAll(&timers, until: .seconds(2000))
    #expect(popped == ["1000.0 idle app0"])
  }
}
