import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneHost

/// Who is in front, by the focus and by a user's word. No display, no clock.
@Suite(.bounded) struct FrontPolicyTests {
  /// A policy and the app in front, as the host would have it.
  private struct Desk {
    var policy = FrontPolicy()
    var front: String?
    var now = Moment.zero

    mutating func follow(_ decision: FrontPolicy.Decision) {
      switch decision {
      case .stay: break
      case .bringForward(let name): front = name
      case .leave(let name):
        #expect(front == name)
        front = nil
      }
    }
    mutating func focus(_ pid: Int32?, _ owner: String?) {
      follow(policy.focus(pid.map(FrontTarget.window), owner: owner, front: front, now: now))
    }
    mutating func say(_ name: String) {
      front = name
      policy.said(name)
    }
    mutating func wait(_ time: Duration) {
      now = now + time
      follow(policy.advance(front: front, now: now))
    }
  }

  // R-LIFE-04
  @Test func theFocusedAppIsInFront() {
    var desk = Desk()
    desk.focus(1, "a")
    #expect(desk.front == "a")
    desk.focus(2, "b")
    #expect(desk.front == "b")
    // Another window of the same app.
    #expect(desk.policy.focus(.window(3), owner: "b", front: "b", now: desk.now) == .stay)
    #expect(desk.policy.leavesAt == nil)
  }

  @Test func whatIsNotManagedPutsNothingInFront() {
    var desk = Desk()
    desk.focus(1, "a")
    desk.focus(9, nil)
    #expect(desk.front == "a")
    #expect(desk.policy.leavesAt == desk.now + FrontPolicy.settling)
    desk.wait(FrontPolicy.settling - .nanoseconds(1))
    #expect(desk.front == "a")
    desk.wait(.nanoseconds(1))
    #expect(desk.front == nil)
    #expect(desk.policy.leavesAt == nil)
  }

  @Test func nothingInBetweenIsPassedOver() {
    var desk = Desk()
    desk.focus(1, "a")
    for _ in 0..<5 {
      desk.focus(nil, nil)
      desk.wait(.milliseconds(100))
      desk.focus(1, "a")
      desk.wait(.seconds(1))
      #expect(desk.front == "a")
    }
    // The time counts from the first of several that are nobody's.
    desk.focus(nil, nil)
    desk.wait(.milliseconds(150))
    desk.focus(9, nil)
    desk.wait(.milliseconds(50))
    #expect(desk.front == nil)
  }

  @Test func aUsersWordStandsUntilAnAppIsFocused() {
    var desk = Desk()
    desk.say("quiet")
    desk.focus(9, nil)
    desk.wait(.seconds(10))
    #expect(desk.front == "quiet")
    desk.focus(1, "a")
    #expect(desk.front == "a")
    // Its window is focused still.
    desk.say("quiet")
    desk.wait(.seconds(10))
    #expect(desk.front == "quiet")
    desk.focus(9, nil)
    desk.wait(.seconds(10))
    #expect(desk.front == "quiet")
  }

  @Test func theWordForWhatIsFocusedChangesNothing() {
    var desk = Desk()
    desk.focus(1, "a")
    desk.say("a")
    desk.focus(9, nil)
    // And while it is about to leave, the word keeps it.
    desk.wait(.milliseconds(100))
    desk.say("a")
    desk.wait(.seconds(1))
    #expect(desk.front == "a")
    desk.focus(1, "a")
    desk.focus(9, nil)
    desk.wait(.seconds(1))
    #expect(desk.front == nil)
  }

  @Test func whatWasSaidMeanwhileIsNotTakenAway() {
    var desk = Desk()
    desk.focus(1, "a")
    desk.focus(9, nil)
    desk.say("b")
    desk.wait(.seconds(1))
    #expect(desk.front == "b")
    // The same, where the host was not told by this policy's user.
    desk.focus(1, "a")
    desk.focus(9, nil)
    desk.front = "c"
    desk.wait(.seconds(1))
    #expect(desk.front == "c")
  }

  @Test func anAppThatBeginsWithTheFocusIsInFront() {
    var desk = Desk()
    desk.focus(7, nil)
    desk.follow(desk.policy.began("other", hasFocused: false, front: desk.front, now: desk.now))
    #expect(desk.front == nil)
    desk.follow(desk.policy.began("adopted", hasFocused: true, front: desk.front, now: desk.now))
    #expect(desk.front == "adopted")
    #expect(desk.policy.owner == "adopted")
    desk.policy.ended("adopted")
    desk.front = nil
    #expect(desk.policy.owner == nil && desk.policy.shown == nil)
    desk.focus(nil, nil)
    #expect(desk.policy.leavesAt == nil)
  }

  /// The terminal that was typed into last, where its job is an app's; that stays until its own has another.
  // R-LIFE-04
  @Test func theJobOfATerminalIsInFront() {
    var desk = Desk()
    func job(_ terminal: String, _ group: Int32?, used: Bool = true) -> FrontTarget {
      .job(TerminalJob(terminal: terminal, group: group, isUsed: used))
    }
    func focus(_ target: FrontTarget, _ owner: String?) {
      desk.follow(desk.policy.focus(target, owner: owner, front: desk.front, now: desk.now))
    }
    focus(job("1", 10), "a")
    #expect(desk.front == "a")
    // A shell elsewhere, as that around a terminal in a terminal; and what nobody types into.
    focus(job("2", 20), nil)
    focus(job("3", 30, used: false), "c")
    desk.wait(.seconds(1))
    #expect(desk.front == "a")
    focus(job("2", 21), "b")
    #expect(desk.front == "b")
    // What was in front before may end.
    focus(job("1", 11, used: false), nil)
    desk.wait(.seconds(1))
    #expect(desk.front == "b")
    // Its shell has the terminal again, for a moment; and for longer, also when another is used by then.
    focus(job("2", 20), nil)
    focus(job("2", 21), "b")
    desk.wait(.seconds(1))
    #expect(desk.front == "b")
    focus(job("1", 11), nil)
    focus(job("2", 20, used: false), nil)
    desk.wait(FrontPolicy.settling)
    #expect(desk.front == nil)
    // An app that begins in the used one.
    desk.follow(desk.policy.began("d", hasFocused: true, front: desk.front, now: desk.now))
    #expect(desk.front == "d" && desk.policy.terminal == "1")
    // Its terminal goes.
    focus(job("1", nil, used: false), nil)
    desk.wait(FrontPolicy.settling)
    #expect(desk.front == nil)
    desk.focus(1, "a")
    focus(job("1", 11), nil)
    desk.wait(.seconds(1))
    #expect(desk.front == "a" && desk.policy.terminal == nil)
  }

  /// Whatever happens, a deadline is there only while an app is to leave, and the focus of an app decides.
  @Test func anySequenceHolds() {
    var random = SplitMix64(seed: 19)
    var desk = Desk()
    for _ in 0..<20_000 {
      let name = ["a", "b", "c"][Int(random.next() % 3)]
      switch random.next() % 5 {
      case 0:
        desk.focus(Int32(random.next() % 9) + 1, name)
        #expect(desk.front == name)
      case 1: desk.focus(nil, nil)
      case 2:
        desk.say(name)
        #expect(desk.policy.leavesAt == nil)
      case 3:
        if desk.front == name { desk.front = nil }
        desk.policy.ended(name)
      default: desk.wait(.milliseconds(Int64(random.next() % 300)))
      }
      #expect(desk.policy.leavesAt == nil || desk.policy.shown != nil)
      if desk.policy.owner != nil { #expect(desk.policy.leavesAt == nil) }
      if let end = desk.policy.leavesAt { #expect(end <= desk.now + FrontPolicy.settling) }
    }
  }
}
