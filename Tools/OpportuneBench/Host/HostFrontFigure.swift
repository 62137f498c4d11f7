import Glibc
import OpportuneBase

/// How the program in front and what runs behind it are started.
package enum HostContender: String, Sendable, CaseIterable {
  /// Nothing runs behind it.
  case alone
  /// As a shell starts them.
  case plain
  /// What is behind by `nice -n 19 ionice -c 3`.
  case nice
  /// What is behind in a control group of the least weight.
  case weights
  /// Apps of `opportune host`, one in front, one in background.
  case opportune
}

/// A contender beside one load, over all repeats.
package struct HostFrontRow: Sendable {
  package let load: String
  package let contender: String
  var histogram = TimeHistogram()
  package internal(set) var unanswered = 0
  /// What the load did in a second, by its kinds of work, in each repeat.
  var work: [[String: Double]] = []
  /// Its p99 in each repeat, microseconds.
  var p99: [Double] = []
}

extension HostBench {
  private static let keys = 10_000
  private static let warmUp: Nanoseconds = 1_000_000_000

  /// Contenders take turns beside each load, repeat after repeat, and in who is first.
  func measureFront(_ folder: String, _ skipped: inout [String]) throws -> [HostFrontRow] {
    var refused: Set<HostContender> = []
    var rows = options.loads.flatMap { load in
      options.contenders.map { HostFrontRow(load: load.rawValue, contender: $0.rawValue) }
    }
    for number in 0..<options.repeats {
      for load in options.loads {
        let count = options.contenders.count
        for place in 0..<count where !isInterrupted() {
          let contender = options.contenders[(place + number) % count]
          guard !refused.contains(contender),
            let index = rows.firstIndex(where: {
              $0.load == load.rawValue && $0.contender == contender.rawValue
            })
          else { continue }
          progress(
            "repeat \(number + 1) of \(options.repeats): \(contender.rawValue) beside \(load.rawValue)")
          do {
            try measure(contender, load, folder, seed: UInt64(number + 1), into: &rows[index])
          } catch let error as BenchError where error.code == .unavailable {
            refused.insert(contender)
            skipped.append("front, \(contender.rawValue): \(error)")
          }
        }
      }
    }
    return rows.filter { !$0.p99.isEmpty }
  }

  private func measure(
    _ contender: HostContender, _ load: HostLoad, _ folder: String, seed: UInt64,
    into row: inout HostFrontRow
  ) throws {
    let scratch = folder + "/front"
    guard mkdir(scratch, 0o755) == 0 else { throw BenchError.failed("'\(scratch)' was not made") }
    defer { Self.empty(scratch) }
    let daemon = contender == .opportune ? try HostDaemon(in: scratch) : nil
    defer { daemon?.stop() }
    let group = contender == .weights ? try WeightGroup() : nil
    let server = try RedisServer(
      daemon?.runs("redis", inFront: true) ?? [], in: scratch, named: "redis", keys: Self.keys)
    defer { server.stop() }
    let client = try RedisClient(server.socket, keys: Self.keys)
    let prefix =
      switch contender {
      case .alone, .plain: [String]()
      case .nice: ["nice", "-n", "19", "ionice", "-c", "3"]
      case .weights: group?.prefix ?? []
      case .opportune: daemon?.runs("behind", inFront: false) ?? []
      }
    let running = contender == .alone ? nil : try load.start(prefix, in: scratch)
    let loadBegin = SystemClock.now()
    let begin = loadBegin + 20_000_000
    let end = begin + Self.warmUp + Nanoseconds(options.seconds * 1e9)
    let held = Held(client: client)
    let (rate, isInterrupted) = (options.rate, isInterrupted)
    let body: @Sendable () -> Void = {
      held.client.run(
        from: begin, measured: begin + Self.warmUp, until: end, rate: rate, seed: seed,
        isInterrupted: isInterrupted)
    }
    let thread = try SystemThread.measuring(named: "clients", body).thread
    thread.join()
    let seconds = Double(elapsed(from: loadBegin, to: SystemClock.now())) / 1e9
    let work = running?.end() ?? [:]
    if let fault = client.fault { throw BenchError(.wrongAnswer, "\(contender.rawValue): redis: \(fault)") }
    guard running == nil || !work.isEmpty else {
      throw BenchError(.workLost, "\(contender.rawValue): \(load.rawValue) says nothing of what it has done")
    }
    guard !isInterrupted() else { return }
    row.histogram.add(client.histogram)
    row.unanswered += client.unanswered
    row.p99.append(client.histogram.percentiles.p99)
    row.work.append(work.mapValues { $0 / seconds })
  }

  /// Sendable: used by its thread until that is joined.
  private struct Held: @unchecked Sendable { let client: RedisClient }

  static func empty(_ folder: String) {
    let removing = try? HostedProgram(["rm", "-rf", "--", folder])
    removing?.end(0, within: 10)
  }
}
