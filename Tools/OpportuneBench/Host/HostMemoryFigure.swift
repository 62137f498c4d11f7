import Glibc
import OpportuneBase
import OpportuneHost
import OpportuneMemory

/// Who decides what becomes of the programs behind when memory is short.
package enum HostMemoryWay: String, Sendable, CaseIterable {
  /// Nothing is behind: as much is free as the program in front wants.
  case alone
  /// As a shell starts them: the kernel ends whom it likes.
  case shell
  /// The same with swap.
  case swap
  /// Suspended apps of a host in the same group, which terminates them, for there is no swap.
  case opportune
  /// Suspended apps of a host in the same group, which pages them out.
  case opportuneSwap = "opportune-swap"

  var swaps: Bool { self == .swap || self == .opportuneSwap }
  var isHosted: Bool { self == .opportune || self == .opportuneSwap }
  var programsBehind: Int { self == .alone ? 0 : HostMemoryRow.programs }
}

/// One way, over all repeats.
package struct HostMemoryRow: Sendable {
  /// That are behind.
  static let programs = 4

  /// What became of a program.
  enum Fate: String, Sendable, Hashable, CaseIterable {
    case killed = "killed by the kernel"
    case terminated = "terminated by the host"
    case pagedOut = "paged out by the host"
    case stuck = "gives no sign for 10 s"
  }

  let way: HostMemoryWay
  /// `nil`: there is no swap.
  let swapPlace: SwapSpace.Place?
  /// From its start until the program in front has its memory, milliseconds, where it came to that.
  var taken: [Double] = []
  /// The longest that it waited for one page, milliseconds.
  var longest: [Double] = []
  /// Swapped out of what was behind, MB.
  var swapped: [Double] = []
  /// Of each repeat, by name.
  var went: [[String: Fate]] = []
  /// How often the program in front was ended, or did not come to have its memory.
  var frontLost = 0
  var hostLost = 0

  init(_ way: HostMemoryWay, swapsTo place: SwapSpace.Place = .file) {
    self.way = way
    swapPlace = way.swaps ? place : nil
  }
}

extension HostBench {
  private static let limitOfWait: Nanoseconds = 120_000_000_000

  /// Ways take turns, repeat after repeat, and in who is first.
  func measureMemory(_ folder: String, _ skipped: inout [String]) throws -> [HostMemoryRow] {
    let ways = HostMemoryWay.allCases
    var rows = ways.map { HostMemoryRow($0, swapsTo: options.swapPlace) }
    var refused: Set<HostMemoryWay> = []
    do {
      try Self.checkMemory(options.mebibytes)
    } catch {
      skipped.append("memory: \(error)")
      return []
    }
    for number in 0..<options.repeats {
      for place in ways.indices where !isInterrupted() {
        let index = (place + number) % ways.count
        guard !refused.contains(ways[index]) else { continue }
        progress("memory: repeat \(number + 1) of \(options.repeats): \(ways[index].rawValue)")
        do {
          try measure(ways[index], folder, into: &rows[index])
        } catch let error as BenchError where error.code == .unavailable {
          refused.insert(ways[index])
          skipped.append("memory, \(ways[index].rawValue): \(error)")
        }
      }
    }
    return rows.filter { !$0.went.isEmpty }
  }

  /// That a group with a limit can be made, and the machine has what it may use.
  private static func checkMemory(_ mebibytes: Int) throws {
    let group = try MemoryGroup()
    defer { group.remove() }
    try group.limit(mebibytes: mebibytes, swaps: true)
    let free = MachineMemory.system.machineReading()?.free ?? 0
    guard free >= UInt64(mebibytes) << 20 else {
      throw BenchError(.unavailable, "\(free >> 20) MiB are free, \(mebibytes) needed; see --mebibytes")
    }
  }

  private func measure(_ way: HostMemoryWay, _ folder: String, into row: inout HostMemoryRow) throws {
    let scratch = folder + "/memory"
    guard mkdir(scratch, 0o755) == 0 else { throw BenchError.failed("'\(scratch)' was not made") }
    defer { Self.empty(scratch) }
    let swap =
      way.swaps
      ? try SwapSpace(on: options.swapPlace, in: options.folder, mebibytes: options.mebibytes) : nil
    defer { withExtendedLifetime(swap) {} }
    let group = try MemoryGroup()
    defer { group.removeAll() }
    try group.limit(mebibytes: options.mebibytes, swaps: way.swaps)
    guard way.swaps || group.forbidsSwap || !SwapSpace.isThere else {
      throw BenchError(.unavailable, "swap cannot be forbidden to a control group here")
    }
    let daemon =
      way.isHosted
      ? try HostDaemon(
        in: scratch, by: group.prefix,
        options: ["--front", "none", "--memory-short", way.swaps ? "pageout" : "terminate"]) : nil
    defer { daemon?.stop() }
    var programs: [MemoryProgramRun] = []
    defer { for program in programs { program.end() } }
    func start(_ name: String, _ role: HostMemoryProgram.Role, _ mebibytes: Int) throws -> MemoryProgramRun {
      let prefix = daemon?.runs(name, inFront: role == .take) ?? group.prefix
      let run = try MemoryProgramRun(name, prefix, HostMemoryProgram(role, mebibytes), in: scratch)
      programs.append(run)
      return run
    }
    for number in 0..<way.programsBehind where !isInterrupted() {
      let run = try start("behind-\(number + 1)", .hold, options.heldBehind)
      guard wait(for: run) != nil else { continue }
      // As one that is left for the next.
      do { try daemon?.suspend(run.name) } catch {
        guard run.hasEnded || daemon?.hasEnded == true else { throw error }
      }
    }
    let begins = SystemClock.now() + Nanoseconds(options.pause * 1e9)
    while SystemClock.now() < begins, !isInterrupted() {
      SystemClock.sleep(until: min(begins, SystemClock.now() + 100_000_000))
    }
    guard !isInterrupted() else { return }
    let behind = programs
    let begin = SystemClock.now()
    let said = wait(for: try start("front", .take, options.wantedInFront))
    guard !isInterrupted() else { return }
    if let said {
      row.taken.append(Double(elapsed(from: begin, to: said.at)) / 1e6)
      row.longest.append(Double(said.longest) / 1e6)
    } else {
      row.frontLost += 1
    }
    row.swapped.append(behind.reduce(0) { $0 + $1.swapped })
    var went: [String: HostMemoryRow.Fate] = [:]
    for run in behind { went[run.name] = fate(of: run, daemon) }
    guard !isInterrupted() else { return }
    row.went.append(went)
    if daemon?.hasEnded == true { row.hostLost += 1 }
  }

  /// `nil`: it has ended, or the run is interrupted, or it did not come to it in two minutes.
  private func wait(for run: MemoryProgramRun) -> HostMemoryProgram.Said? {
    let deadline = SystemClock.now() + Self.limitOfWait
    while !isInterrupted(), SystemClock.now() < deadline {
      if let said = run.said { return said }
      if run.hasEnded { return nil }
      SystemClock.sleep(until: SystemClock.now() + 2_000_000)
    }
    return nil
  }

  /// `nil`: it has all that it had, and runs or is suspended.
  private func fate(of run: MemoryProgramRun, _ daemon: HostDaemon?) -> HostMemoryRow.Fate? {
    let entry = daemon.flatMap { try? $0.ask(.apps).apps?.first { $0.id == run.name } }
    let beats = run.said?.beats ?? 0
    let deadline = SystemClock.now() + 10_000_000_000
    while !isInterrupted(), SystemClock.now() < deadline {
      if run.hasEnded { return daemon?.hasTerminated(run.name) == true ? .terminated : .killed }
      if let entry, entry.state == "suspended" {
        let wasAsked = entry.notes.contains { $0.hasPrefix("memory was short: it was paged out") }
        return wasAsked && run.swapped > 0 ? .pagedOut : nil
      }
      if (run.said?.beats ?? 0) > beats { return nil }
      SystemClock.sleep(until: SystemClock.now() + 2_000_000)
    }
    return .stuck
  }
}

/// A program of the memory figure that was started.
private final class MemoryProgramRun {
  let name: String
  private let log: String
  private let program: HostedProgram

  init(_ name: String, _ prefix: [String], _ what: HostMemoryProgram, in folder: String) throws {
    (self.name, log) = (name, "\(folder)/\(name).log")
    program = try HostedProgram(prefix + what.words, output: log)
  }

  var said: HostMemoryProgram.Said? { TextFile.read(log).flatMap(HostMemoryProgram.Said.init) }
  var hasEnded: Bool { program.hasEndedByItself }
  func end() { program.end() }

  /// MB.
  var swapped: Double {
    for line in (TextFile.read("/proc/\(program.process)/status") ?? "").split(separator: "\n") {
      let words = line.split(whereSeparator: { $0 == "\t" || $0 == " " })
      if words.count > 1, words[0] == "VmSwap:" { return (Double(words[1]) ?? 0) * 1024 / 1e6 }
    }
    return 0
  }
}

extension HostDaemon {
  /// Whether it has said that it terminates that app.
  fileprivate func hasTerminated(_ name: String) -> Bool {
    (TextFile.read(log) ?? "").contains("'\(name)' is terminated: ")
  }
}
