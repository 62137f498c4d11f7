import OpportuneBase
import ToolSupport

/// A whole run of `opportune bench serve`: every contender in turn, repeat after repeat, idle and under load.
package struct ServeBench: BlockingBench {
  package typealias Outcome = ServeReport

  package let context: BenchContext<ServeOptions>
  /// Starts a server: as a process, unless a test has it otherwise.
  var launch: @Sendable (ServerSetup, _ limit: Int?) throws -> any RunningServer

  /// What clients ask is as ``ServePlan`` has it, unless a test asks less.
  var adjust: @Sendable (inout ServePlan) -> Void = { _ in }

  /// What is left out because the host disturbed it.
  var rule = NoiseRule()

  package init(_ context: BenchContext<ServeOptions>) {
    self.context = context
    let rival = context.options.nioRival
    launch = { try ServeProcess($0, rival: rival, limit: $1) }
  }

  package func measure() throws -> ServeReport {
    try DescriptorLimit.raise(
      forConnections: ServePlan(
        load: .full, duration: 0, seed: 0, connections: options.connections, heavyAtOnce: options.heavy
      ).connections)
    let machine = MachineReport.current()
    let start = SystemClock.now()
    progress("reading \(options.trees.joined(separator: ", "))")
    let corpus = try Corpus(
      roots: options.trees, bytesMax: Corpus.bytesMax, chunkBytes: ServeData.chunkBytes)
    progress(corpus.summary)
    let folder = try ScratchFolder(in: options.folder)
    progress("indexing it, and counting what the answers must be")
    var report = ServeReport(
      machine: machine, noise: NoiseReport(), tallies: [], notes: [corpus.summary], wasInterrupted: true,
      options: options)
    guard let data = try ServeData.prepare(corpus, in: folder.path, isInterrupted: isInterrupted) else {
      return report
    }
    let limit = memoryLimit()
    report.notes += [data.summary, limit.note]
    for note in report.notes.dropFirst() { progress(note) }
    report.notes.append(options.summary)
    progress("the windows take \(Int(options.secondsOfWindows.rounded())) s")
    let meter = NoiseMeter(iterationsPerMicrosecond: SpinWork.calibrate())
    var tallies = options.contenders.flatMap { contender in
      options.loads.map { ServeTally(contender: contender.name, load: $0) }
    }
    var number = 0
    var lost: Set<Int> = []
    rounds: for round in 0..<options.repeats {
      for turn in BenchOptions.order(Array(tallies.indices), repeat: round * options.loads.count) {
        if isInterrupted() { break rounds }
        if lost.contains(turn) { continue }
        let (contender, load) = (tallies[turn].contender, tallies[turn].load)
        progress(line(round, tallies[turn], since: start))
        number += 1
        let own = try ServeFolder(folder.path, number)
        let port = options.sockets == .tcp ? try ReservedPort() : nil
        let setup = ServerSetup(
          contender: contender, source: data.source, segments: try data.linkSegments(into: own.path),
          folder: own.path, address: port.map { .tcp($0.number) } ?? .unix("\(own.path)/socket"),
          cores: machine.cores,
          cacheBytes: ServeOptions.cacheBytes, hasBackground: load == .full, files: options.files)
        var plan = ServePlan(
          load: load, duration: Nanoseconds(options.secondsOfWindow * 1e9),
          seed: UInt64(round + 1) &* 1_000_003,
          connections: options.connections, heavyAtOnce: options.heavy)
        adjust(&plan)
        let window = ServeWindow(
          plan: plan, contender: contender, questions: data.questions, meter: meter,
          launch: { try launch($0, limit.mebibytes) }, isInterrupted: isInterrupted)
        let outcome: ServeOutcome
        do {
          outcome = try withExtendedLifetime((folder, own, port)) { try window.run(setup) }
        } catch let error as BenchError where error.code == .workLost {
          // The others are measured all the same.
          lost.insert(turn)
          report.failure = report.failure ?? error
          report.notes.append("\(error); left out from repeat \(round + 1) on")
          progress("\(error)")
          continue
        }
        tallies[turn].count(outcome, rule: rule, cores: machine.cores, runStart: start)
        report.noise.count(outcome.slices, rule: rule, cores: machine.cores)
        report.noise.count(standstills: outcome.standstills)
      }
    }
    report.tallies = tallies.filter { !$0.accounts.isEmpty }
    report.wasInterrupted = isInterrupted()
    report.seconds = Double(elapsed(from: start, to: SystemClock.now())) / 1e9
    return report
  }

  private func line(_ round: Int, _ tally: ServeTally, since start: Nanoseconds) -> String {
    let seconds = elapsed(from: start, to: SystemClock.now()) / 1_000_000_000
    return "[\(seconds) s] repeat \(round + 1)/\(options.repeats) \(tally.load.rawValue): \(tally.contender)"
  }

  /// What the kernel can be made to keep, and what is told of it.
  private func memoryLimit() -> (mebibytes: Int?, note: String) {
    let limit = options.serverMebibytes
    do {
      let group = try MemoryGroup()
      defer { group.remove() }
      try group.limit(mebibytes: limit, swaps: false)
      return (limit, "each server has \(limit) MiB of memory, which a cgroup keeps")
    } catch {
      return (nil, "each server is to have \(limit) MiB of memory; nothing keeps it here: \(error)")
    }
  }
}
