import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneHost

/// What is done when memory is short, in virtual time.
@Suite(.bounded) struct ShortagePolicyTests {
  private typealias App = ShortagePolicy.App
  private static let gigabyte: UInt64 = 1 << 30
  private static let helpful = ShortagePolicy.Paged(before: 160 << 20, after: 150 << 20)

  private func app(_ name: String, idle: Double = 0, megabytes: UInt64 = 10) -> App {
    App(name: name, isSuspended: true, footprint: megabytes << 20, idle: .seconds(idle), wasInFront: true)
  }

  private func names(_ steps: [ShortagePolicy.Step]) -> [String] {
    steps.map {
      switch $0 {
      case .warn(let names): "warn \(names.joined(separator: " "))"
      case .pageOut(let names): "page out \(names.joined(separator: " "))"
      case .terminate(let name, _): "terminate \(name)"
      }
    }
  }

  // R-MEM-01
  @Test func stepsComeInOrderAndOneAtATime() {
    var policy = ShortagePolicy(answer: .terminate, settle: .seconds(2))
    let running = App(name: "runs", hears: true, footprint: 900 << 20)
    var apps = [running, app("new", idle: 5), app("old", idle: 50)]
    func short(_ seconds: Double) -> [String] {
      names(policy.isShort(at: .seconds(seconds), apps, capacity: Self.gigabyte))
    }
    #expect(short(0) == ["warn runs", "page out old new"])
    for index in apps.indices.dropFirst() { apps[index].isPagedOut = true }
    // However long that takes, nothing else is taken meanwhile.
    #expect(short(60) == ["warn runs"])
    policy.pagingEnded(at: .seconds(61), Self.helpful)
    #expect(policy.mayAct(after: .seconds(61)) == .seconds(63))
    #expect(short(62.9) == ["warn runs"])
    #expect(short(63) == ["warn runs", "terminate old"])
    apps.removeLast()
    #expect(short(64) == ["warn runs"])
    #expect(short(65) == ["warn runs", "terminate new"])
    apps.removeLast()
    #expect(short(100) == ["warn runs"])
    #expect(policy.mayAct(after: .seconds(100)) == nil)
  }

  // R-MEM-01
  /// Without swap next to nothing goes, and who asks for memory has no two seconds.
  @Test func whatHasNotHelpedIsNotWaitedFor() {
    var policy = ShortagePolicy(answer: .terminate, settle: .seconds(2))
    var apps = [app("new", idle: 5), app("old", idle: 50)]
    func short(_ seconds: Double) -> [String] {
      names(policy.isShort(at: .seconds(seconds), apps, capacity: Self.gigabyte))
    }
    #expect(short(0) == ["page out old new"])
    for index in apps.indices { apps[index].isPagedOut = true }
    policy.pagingEnded(at: .seconds(1), .init(before: 160 << 20, after: (150 << 20) + 1))
    #expect(policy.mayAct(after: .seconds(1)) == nil)
    #expect(short(1) == ["terminate old"])
    #expect(policy.mayAct(after: .seconds(1)) == .seconds(3))
    apps.removeLast()
    #expect(short(2.9) == [] && short(3) == ["terminate new"])
  }

  // R-MEM-01
  @Test(arguments: [
    (ShortagePolicy.Answer.warn, ["warn runs"], ["warn runs"]),
    (.pageout, ["warn runs", "page out one"], ["warn runs"]),
    (.terminate, ["warn runs", "page out one"], ["warn runs", "terminate one"]),
  ]) func theHostGoesAsFarAsItMay(answer: ShortagePolicy.Answer, first: [String], later: [String]) {
    var policy = ShortagePolicy(answer: answer)
    var apps = [App(name: "runs", hears: true), app("one")]
    #expect(names(policy.isShort(at: .seconds(10), apps, capacity: Self.gigabyte)) == first)
    apps[1].isPagedOut = true
    if answer != .warn { policy.pagingEnded(at: .seconds(11), Self.helpful) }
    #expect(names(policy.isShort(at: .seconds(20), apps, capacity: Self.gigabyte)) == later)
  }

  // R-MEM-09, R-MEM-11
  @Test func onlySuspendedAppsThatNobodyKeepsAreTerminated() {
    var policy = ShortagePolicy(answer: .terminate)
    var kept = app("kept", idle: 100)
    (kept.isKept, kept.isPagedOut) = (true, true)
    let background = App(name: "background", footprint: 800 << 20, idle: .seconds(100))
    let steps = policy.isShort(at: .seconds(10), [kept, background], capacity: Self.gigabyte)
    #expect(steps == [])
  }

  // R-MEM-13, R-MEM-14
  @Test func whoHoldsAQuarterOfMemoryGoesFirst() throws {
    var policy = ShortagePolicy(answer: .terminate, settle: .zero)
    var apps = [app("old", idle: 50), app("heavy", idle: 5, megabytes: 300), app("new", idle: 1)]
    for index in apps.indices { apps[index].isPagedOut = true }
    var order: [ShortagePolicy.Step] = []
    while let step = policy.isShort(at: .seconds(10), apps, capacity: Self.gigabyte).first {
      order.append(step)
      apps.removeAll { step == .terminate($0.name, "") || names([step]) == ["terminate \($0.name)"] }
    }
    #expect(names(order) == ["terminate heavy", "terminate old", "terminate new"])
    guard case .terminate(_, let why) = try #require(order.first) else { return }
    #expect(why.contains("suspended with 314.6 MB") && why.contains("25 %"), "\(why)")
    guard case .terminate(_, let next) = order[1] else { return }
    #expect(next.contains("in front longest ago"), "\(next)")
  }

  /// What is suspended later is paged out before anything is terminated.
  // R-MEM-01
  @Test func whatIsSuspendedMeanwhileIsPagedOutFirst() {
    var policy = ShortagePolicy(answer: .terminate, settle: .zero)
    var old = app("old")
    old.isPagedOut = true
    let steps = policy.isShort(at: .seconds(10), [old, app("new")], capacity: Self.gigabyte)
    #expect(names(steps) == ["page out new"])
  }
}
