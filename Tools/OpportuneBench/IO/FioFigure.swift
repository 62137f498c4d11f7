import COpportune
import FoundationEssentials
import Glibc
import Opportune
import OpportuneBase
import SystemPackage
import ToolSupport

/// Figure 3: the same random reads by fio and by the broker.
extension IOBench {
  func measureBesideFio(_ report: inout IOBenchReport, _ file: TestFile) async throws {
    let places: [String] = ["/usr/bin/fio", "/usr/local/bin/fio"]
    let program = places.first { access($0, X_OK) == 0 }
    if program == nil { report.notes.append("fio: skipped, there is no fio here (apt-get install fio)") }
    for depth in [1, 32] {
      var modes = ["broker", "broker-busyPoll-20us"]
      var points = [Duration.zero, .microseconds(20)].enumerated().map { index, busyPoll in
        IOPoint(name: "fio, depth \(depth), \(modes[index])") { try await ours(file, depth, busyPoll) }
      }
      if let program {
        modes.insert("fio", at: 0)
        points.insert(
          IOPoint(name: "fio, depth \(depth), fio", isRival: true) { try fio(program, file, depth) }, at: 0)
      }
      let rates = try await turns(&report, points)
      for (mode, values) in zip(modes, rates) where !values.isEmpty {
        var result = IOResult(.fio, mode, load: "4k-random-\(depth)")
        result.setRates(values, rival: mode == "fio" || program == nil ? nil : rates[0])
        report.results.append(result)
      }
    }
  }

  private struct FioOutput: Decodable {
    struct Job: Decodable {
      struct Direction: Decodable { var iops: Double }
      var read: Direction
    }
    var jobs: [Job]
  }

  private func fio(_ program: String, _ file: TestFile, _ depth: Int) throws -> Double {
    let output = try ScratchFile(in: options.folder)
    let arguments = [
      program, "--name=x", "--filename=\(file.path.string)", "--ioengine=io_uring", "--rw=randread",
      "--bs=4k",
      "--direct=1", "--iodepth=\(depth)", "--time_based", "--runtime=\(Int(options.seconds * 1000))ms",
      "--output-format=json", "--allow_file_create=0",
    ]
    let fio = try ChildProcess.start(arguments) { $0.write(to: output, errors: false) }
    let status = ChildProcess.wait(for: fio)
    guard status == 0, let text = TextFile.read(output.path),
      let parsed = try? JSONDecoder().decode(FioOutput.self, from: Data(text.utf8)),
      let job = parsed.jobs.first
    else { throw BenchError(.system, "fio failed with status \(status)") }
    return job.read.iops
  }

  private func ours(_ file: TestFile, _ depth: Int, _ busyPoll: Duration) async throws -> Double {
    var configuration = IOConfiguration()
    configuration.busyPoll = busyPoll
    let scheduler = try Scheduler()
    let broker = try IOBroker(configuration: configuration)
    let app = try scheduler.makeApp(named: "reader")
    let io = try broker.makeIO(for: app)
    let descriptor = try await io.open(file.path, .readOnly, options: .direct)
    let start = opp_now_ns()
    let end = start + windowNanoseconds
    let readers = app.task {
      try await withThrowingTaskGroup(of: Int.self) { group in
        for number in 0..<depth {
          group.addTask {
            let buffer = try IOBuffer(count: 4096)
            var offsets = Offsets(UInt64(number) + 1)
            var count = 0
            while opp_now_ns() < end {
              _ = try await io.read(descriptor, into: buffer, at: offsets.next(file.size, 4096))
              count += 1
            }
            return count
          }
        }
        return try await group.reduce(0, +)
      }
    }
    let total = try await readers.value
    let seconds = Double(opp_now_ns() - start) / 1e9
    try await io.close(descriptor)
    await broker.shutdown()
    try await scheduler.shutdown()
    return Double(total) / seconds
  }
}
