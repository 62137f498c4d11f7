import COpportune
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

/// Counts of several events.
private final class Marks: @unchecked Sendable {
  let count: Int
  // Every access to a mark is atomic.
  private let marks: UnsafeMutablePointer<Atomic<Int>>

  init(_ count: Int) {
    self.count = count
    marks = .allocate(capacity: count)
    for index in 0..<count { (marks + index).initialize(to: Atomic(0)) }
  }

  deinit {
    marks.deinitialize(count: count)
    marks.deallocate()
  }

  func add(_ index: Int) { marks[index].add(1, ordering: .relaxed) }
  var values: [Int] { (0..<count).map { marks[$0].load(ordering: .acquiring) } }
}

/// Named so that the concurrent tests run under the sanitizers by the filter `Stress`. OPPORTUNE_STRESS=N
/// makes them N times as long.
/// An actor that nobody holds but those who call it.
private actor Passing {
  private let strand: Strand
  private var value = 0

  init(_ app: App) throws { strand = try app.makeStrand(named: "passing") }

  nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }

  func add() -> Int {
    value += 1
    return value
  }
}

@Suite(.bounded, .timeLimit(.minutes(10)), .serialized) struct StressRaceTests {
  // R-CPU-02 R-CARD-03
  /// The job that a thread queues may end, and with it the last that holds the executor, before the thread
  /// goes on.
  @Test func executorsMayGoWhileTheirLastJobIsQueued() async throws {
    let scheduler = try makeScheduler(workers: 2)
    let count = 4000 * stressScale
    let sum = await withTaskGroup(of: Int.self) { group in
      for number in 0..<8 {
        group.addTask {
          var sum = 0
          for _ in 0..<count / 8 {
            guard let app = try? scheduler.makeApp(named: "passing \(number)") else { continue }
            if let actor = try? Passing(app) { sum += await actor.add() }
            sum += await Task.detached(executorPreference: app.executor) { 1 }.value
          }
          return sum
        }
      }
      return await group.reduce(0, +)
    }
    #expect(sum == count / 8 * 8 * 2)
    try await scheduler.shutdown()
  }

  // R-CARD-03 R-FTS-09 R-CPU-10
  @Test(arguments: [1, 2, 4, 16]) func everyJobEndsOnceAcrossAShutdown(workers: Int) async throws {
    let each = 3000 * stressScale
    for round in 0..<3 {
      let scheduler = try makeScheduler(workers: workers)
      let apps = try (0..<4).map {
        try scheduler.makeApp(named: "app \($0)", band: $0 % 2 == 0 ? .foreground : .background)
      }
      let strands = try apps.map { try $0.makeStrand(named: "strand") }
      let accepted = Marks(4 * each)
      let ran = Marks(4 * each)
      let cancelled = Marks(4 * each)
      let strandAccepted = Marks(4 * each)
      let strandRan = Marks(4 * each)
      let strandCancelled = Marks(4 * each)
      let under = Record<Int>()
      await withTaskGroup(of: Void.self) { group in
        for producer in 0..<4 {
          group.addTask {
            var random = SplitMix64(seed: UInt64(100 * round + producer + 1))
            for number in 0..<each {
              let job = producer * each + number
              if number == each / 2 { under.add(producer) }
              do throws(SchedulerError) {
                let app = Int.random(in: 0..<4, using: &random)
                let priority: TaskPriority? = [nil, .low, .high].randomElement(using: &random) ?? nil
                try apps[app].submit(priority: priority, onCancel: { cancelled.add(job) }) { ran.add(job) }
                accepted.add(job)
                if number % 8 == 0 {
                  try strands[app].submit(onCancel: { strandCancelled.add(job) }) { strandRan.add(job) }
                  strandAccepted.add(job)
                }
              } catch {
                if error.code != .shutDown { Issue.record(error) }
              }
            }
          }
        }
        group.addTask {
          var random = SplitMix64(seed: UInt64(round + 50))
          for _ in 0..<(each / 4) {
            let app = apps[Int.random(in: 0..<4, using: &random)]
            if Bool.random(using: &random) { app.suspend() }
            do {
              try app.setBand(Bool.random(using: &random) ? .foreground : .background)
            } catch {
              Issue.record(error)
            }
            await Task.yield()
            app.resume()
          }
        }
        // In the midst of it; in the last round when all is over.
        _ = await under.reaching(round == 2 ? 4 : 2)
        if round == 2 { await group.waitForAll() }
        do { try await scheduler.shutdown(within: .seconds(60)) } catch { Issue.record(error) }
      }
      // What was refused neither ran nor was cancelled; what was accepted did one of them.
      for (accepted, ran, cancelled) in [
        (accepted, ran, cancelled), (strandAccepted, strandRan, strandCancelled),
      ] {
        let (a, r, c) = (accepted.values, ran.values, cancelled.values)
        let wrong = a.indices.filter { r[$0] + c[$0] != a[$0] }
        #expect(wrong.isEmpty, "\(wrong.count) jobs of \(a.reduce(0, +)) accepted")
      }
      let all = (cancelled.values + strandCancelled.values).reduce(0, +)
      #expect(apps.map(\.statistics.cancelled).reduce(0, +) == UInt64(all))
      if round == 2 { #expect(accepted.values.allSatisfy { $0 == 1 }) }
    }
  }

  private struct Step: Sendable {
    let submitter: Int
    let number: Int
  }

  /// Only ever used on a strand, so that it needs no lock: ThreadSanitizer sees every overlap.
  private final class Unlocked: @unchecked Sendable {
    var steps: [Step] = []
  }

  // R-CPU-02 R-CARD-03
  @Test(arguments: [1, 2, 4, 16]) func strandsNeverOverlapAndKeepTheOrder(workers: Int) async throws {
    let (scheduler, app) = try makeApp(named: "app", band: .background, workers: workers)
    let ui = try scheduler.makeApp(named: "ui")
    let strand = try app.makeStrand(named: "strand")
    let each = 3000 * stressScale
    let unlocked = Unlocked()
    let inside = Tally()
    let overlaps = Tally()
    let done = Record<Int>()
    let step: @Sendable (Int, Int) throws(SchedulerError) -> Void = {
      submitter, number throws(SchedulerError) in
      try strand.submit {
        if inside.add(1) != 1 { overlaps.add(1) }
        unlocked.steps.append(Step(submitter: submitter, number: number))
        inside.add(-1)
        if number == each - 1 { done.add(submitter) }
      }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      // From threads of the pools of either band, and from outside.
      for submitter in 0..<2 {
        group.addTask { for number in 0..<each { try step(submitter, number) } }
      }
      for (submitter, home) in [(2, ui), (3, ui), (4, app)] {
        group.addTask(executorPreference: home.executor) {
          for number in 0..<each {
            try step(submitter, number)
            if number % 64 == 0 { await Task.yield() }
          }
        }
      }
      group.addTask {
        var random = SplitMix64(seed: 3)
        for _ in 0..<(each / 10) {
          app.suspend()
          try app.setBand(Bool.random(using: &random) ? .foreground : .background)
          await Task.yield()
          app.resume()
        }
      }
      try await group.waitForAll()
    }
    _ = await done.reaching(5)
    try await scheduler.shutdown()
    #expect(overlaps.count == 0)
    for submitter in 0..<5 {
      #expect(unlocked.steps.filter { $0.submitter == submitter }.map(\.number) == Array(0..<each))
    }
  }

  // R-CARD-03
  @Test(arguments: [1, 2]) func workersParkAndWakeWithoutLoss(workers: Int) async throws {
    let scheduler = try makeScheduler(workers: workers)
    let apps = [
      try scheduler.makeApp(named: "foreground"),
      try scheduler.makeApp(named: "background", band: .background),
    ]
    let rounds = 12_500 * stressScale
    let answers = Tally()
    // Each thread hands over one job, or two, and waits: the worker has nothing left, and lies down as the
    // next comes. A lost wake-up would leave the thread waiting for ever.
    await withTaskGroup(of: Void.self) { group in
      for thread in 0..<2 {
        group.addTask {
          await onThread {
            let answered = DispatchSemaphore(value: 0)
            var random = SplitMix64(seed: UInt64(thread + 1))
            for round in 0..<rounds {
              for app in round % 2 == 0 ? apps[thread...thread] : apps[0...1] {
                do {
                  try app.submit {
                    answers.add(1)
                    answered.signal()
                  }
                } catch {
                  Issue.record(error)
                }
              }
              for _ in 0..<(round % 2 == 0 ? 1 : 2) { answered.wait() }
              for _ in 0..<Int.random(in: 0..<200, using: &random) { opp_pause() }
            }
          }
        }
      }
    }
    #expect(answers.count == 3 * rounds)
    let wakeups = await scheduler.statistics().pools.reduce(0) { $0 + $1.wakeups }
    // They did sleep in between, or nothing has been hunted.
    #expect(wakeups > UInt64(rounds / 10))
    if stressScale > 1 {
      print("\(3 * rounds) jobs handed over to \(workers) workers a pool, woken \(wakeups) times")
    }
    try await scheduler.shutdown()
  }

  // R-CARD-07
  @Test func everySleepEndsOnce() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let clock = app.clock
    let count = 2000 * stressScale
    let ended = Marks(count)
    let cancelled = await withTaskGroup(of: Bool.self) { group in
      for number in 0..<count {
        group.addTask(executorPreference: app.executor) {
          let sleeper = app.task {
            defer { ended.add(number) }
            // Some are too long to end without the cancellation that they get.
            try await clock.sleep(for: number % 4 == 0 ? .seconds(3600) : .microseconds(number * 37 % 9000))
          }
          if number % 4 == 0 || number % 3 == 0 {
            for _ in 0..<(number % 7) { await Task.yield() }
            sleeper.cancel()
          }
          do {
            try await sleeper.value
            return false
          } catch {
            return error is CancellationError
          }
        }
      }
      return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    #expect(ended.values.allSatisfy { $0 == 1 })
    #expect(cancelled >= (count + 3) / 4 && cancelled <= count / 2 + 1)
    try await scheduler.shutdown()
  }
}
