import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

/// Made before a signal handler may need them.
private nonisolated(unsafe) let stopped: UnsafeMutablePointer<sem_t> = newSemaphore()
private nonisolated(unsafe) let answers: UnsafeMutablePointer<sem_t> = newSemaphore()
private nonisolated(unsafe) let goesOn: UnsafeMutablePointer<sem_t> = newSemaphore()
private let answersWanted: Int32 = 3

private func newSemaphore() -> UnsafeMutablePointer<sem_t> {
  let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
  sem_init(semaphore, 0, 0)
  return semaphore
}

/// Whatever the thread was at, it does nothing for 100 ms, which are the subject; on a loaded machine until
/// there were so many answers, 20 s at most.
private func stopHere(_ signal: Int32) {
  let saved = errno
  sem_post(stopped)
  var pause = timespec(tv_sec: 0, tv_nsec: 100_000_000)
  var (pauses, count): (Int32, Int32) = (0, 0)
  repeat {
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nil)
    pauses += 1
    sem_getvalue(answers, &count)
  } while count < answersWanted && pauses < 200
  sem_post(goesOn)
  errno = saved
}

/// Chains of short jobs of the background that queue what comes next, in the background and in the
/// foreground.
private final class Chains: Sendable {
  let isOver = Flag()
  let queued = Tally()
  let ran = Tally()
  let refused = Record<String>()
  let ended = Record<Int>()
  /// The thread that ran the last link.
  let thread = Atomic<UInt>(0)
  private let front: App
  private let backs: [App]
  /// It comes and goes, with jobs that are no links.
  private let moved: App
  private let strands: [Strand]

  init(front: App, backs: [App], moved: App, strands: [Strand]) {
    self.front = front
    self.backs = backs
    self.moved = moved
    self.strands = strands
  }

  func link(_ number: Int) {
    // Workers block signals.
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGUSR2)
    pthread_sigmask(SIG_UNBLOCK, &signals, nil)
    thread.store(UInt(pthread_self()), ordering: .relaxed)
    guard !isOver.isUp else { return ended.add(number) }
    do {
      switch number % 8 {
      case 1: try queue { try front.submit($0) }
      case 3: try queue { try strands[0].submit($0) }
      case 5: try queue { try strands[1].submit($0) }
      case 7: try queue { try moved.submit($0) }
      case 0 where number % 64 == 0:
        moved.suspend()
        try moved.setBand(number % 128 == 0 ? .foreground : .background)
        moved.resume()
        backs[0].suspend()
        backs[0].resume()
      default: break
      }
      try queue(number + 1)
    } catch { refused.add("\(error)") }
  }

  func queue(_ number: Int) throws {
    queued.add(1)
    try backs[number % 2].submit { [self] in
      ran.add(1)
      link(number)
    }
  }

  private func queue(_ submit: (@escaping @Sendable () -> Void) throws -> Void) throws {
    queued.add(1)
    try submit { [ran] in ran.add(1) }
  }
}

@Suite(.bounded, .timeLimit(.minutes(3)), .serialized) struct StoppedWorkerTests {
  // R-CPU-02
  /// The monitor's thread may be kept off the CPU as it begins, while the first jobs run and their alarms go
  /// off.
  @Test func noAlarmIsLostBeforeTheMonitorHasBegun() {
    var alarms: [UInt32] = [0b01, 0b10, 0b100, 0b1000]
    let rung = Monitor.gather(until: { alarms.count == 1 }, { alarms.removeFirst() })
    #expect(rung == 0b111)
  }

  // R-CPU-01 R-CARD-03 R-FTS-09
  /// Law 1: whatever instruction the kernel stops a worker of the background at, the foreground goes on, and
  /// no job is lost.
  @Test func theForegroundGoesOnWhileAWorkerOfTheBackgroundIsStopped() async throws {
    _ = (stopped, answers, goesOn, answersWanted)
    var action = sigaction()
    action.__sigaction_handler.sa_handler = stopHere
    var before = sigaction()
    #expect(sigaction(SIGUSR2, &action, &before) == 0)
    defer { sigaction(SIGUSR2, &before, nil) }

    // What is demoted runs in the background's pool, on a thread that may be the stopped one.
    let scheduler = try makeScheduler(workers: 2, quantum: QuantumPolicy(quantum: .milliseconds(500)))
    let front = try scheduler.makeApp(named: "front")
    let backs = try (0..<2).map { try scheduler.makeApp(named: "back \($0)", band: .background) }
    let moved = try scheduler.makeApp(named: "moved", band: .background)
    let strands = [try front.makeStrand(named: "front"), try backs[1].makeStrand(named: "back")]
    let chains = Chains(front: front, backs: backs, moved: moved, strands: strands)
    for chain in 0..<4 { try chains.queue(chain * 5) }
    let rounds = Record<Int>()
    await onThread {
      var random = SplitMix64(seed: 11)
      let answered = DispatchSemaphore(value: 0)
      // What a person waits for: a closure, a strand's turn, a task.
      func answer(_ number: Int) {
        do {
          switch number % 3 {
          case 0: try front.submit { answered.signal() }
          case 1: try strands[0].submit { answered.signal() }
          default: front.task { answered.signal() }
          }
          answered.wait()
        } catch { chains.refused.add("\(error)") }
      }
      while chains.ran.count < 1000 { answer(0) }
      for _ in 0..<20 {
        for number in 0..<Int.random(in: 1...300, using: &random) { answer(number) }
        guard pthread_kill(pthread_t(chains.thread.load(ordering: .relaxed)), SIGUSR2) == 0 else { continue }
        while sem_wait(stopped) != 0 {}
        var count = 0
        while sem_trywait(goesOn) != 0 {
          answer(count)
          count += 1
          sem_post(answers)
        }
        while sem_trywait(answers) == 0 {}
        rounds.add(count)
      }
      chains.isOver.raise()
    }
    _ = await chains.ended.reaching(4)
    try await scheduler.shutdown()
    // One that waits for the stopped thread is answered as well, when that goes on.
    #expect(
      rounds.count == 20 && rounds.values.allSatisfy { $0 >= Int(answersWanted) }, "answers: \(rounds.values)"
    )
    #expect(chains.refused.values.isEmpty && front.statistics.demotions == 0)
    #expect(chains.ran.count == chains.queued.count)
  }
}
