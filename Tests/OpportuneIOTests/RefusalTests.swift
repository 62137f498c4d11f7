import CIOTestSupport
import COpportune
import Foundation
import Logging
import OpportuneScheduler
import Synchronization
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// A kernel that refuses io_uring, as many containers do: a real refusal, by seccomp on one thread.
@Suite(.bounded) struct RefusalTests {
  private final class Made {
    let backend: IOConfiguration.Backend
    let lines = Lines()
    var result: Result<IOBroker, IOError>?
    init(_ backend: IOConfiguration.Backend) { self.backend = backend }

    func make() {
      var configuration = IOConfiguration()
      configuration.backend = backend
      let logger = lines.logger
      do throws(IOError) {
        result = .success(try IOBroker(configuration: configuration, logger: logger))
      } catch {
        result = .failure(error)
      }
    }
  }

  /// A broker made where the kernel refuses io_uring; nil, and says so, where that cannot be brought about.
  private func makeRefused(_ backend: IOConfiguration.Backend) -> Made? {
    let made = Made(backend)
    let error = io_test_without_uring(
      { Unmanaged<Made>.fromOpaque($0).takeUnretainedValue().make() },
      Unmanaged.passUnretained(made).toOpaque())
    guard error == 0 else {
      print("skipped: this process may not install a seccomp filter (errno \(-error))")
      return nil
    }
    return made
  }

  // R-CARD-04
  @Test func threadsDoTheSameAndTheLoggerSaysSoOnce() async throws {
    guard let made = makeRefused(.automatic) else { return }
    let broker = try #require(try made.result?.get())
    #expect(!broker.capabilities.usesUring)
    #expect(broker.capabilities.refusal == Errno.notPermitted.rawValue)
    #expect(!broker.capabilities.isSingleIssuer)
    let io = try broker.makeApp(named: "refused")
    try await withFolder { folder in
      let path = folder.appending("file")
      try await io.writeFile(path, Array("all the same".utf8))
      #expect(try await io.readFile(path) == Array("all the same".utf8))
    }
    let (server, client) = try await connectedPair(io)
    try await io.send(client, from: try IOBuffer(copying: Array("abc".utf8)))
    let buffer = try IOBuffer(count: 10)
    #expect(try await io.receive(server, into: buffer) == 3)
    #expect(try await !broker.statistics().usesUring)
    await broker.shutdown()
    #expect(made.lines.all.count == 1)
    #expect(made.lines.all.first?.contains("io_uring is refused") == true)
  }

  /// Not the setting of the kernel, which does not refuse it here.
  @Test func theDiagnosisNamesTheFilter() throws {
    final class Seen { var diagnosis: Diagnosis? }
    let seen = Seen()
    let error = io_test_without_uring(
      { Unmanaged<Seen>.fromOpaque($0).takeUnretainedValue().diagnosis = Diagnosis.run() },
      Unmanaged.passUnretained(seen).toOpaque())
    guard error == 0 else {
      print("skipped: this process may not install a seccomp filter (errno \(-error))")
      return
    }
    let found = try #require(seen.diagnosis?.findings.first { $0.subject == "io_uring" })
    let setting = try? String(contentsOfFile: "/proc/sys/kernel/io_uring_disabled", encoding: .utf8)
    guard setting ?? "0\n" == "0\n" else { return print("skipped: the setting refuses it as well") }
    #expect(found.found.hasSuffix("a seccomp filter refuses it"), "\(found)")
    #expect(found.remedy?.contains("io_uring_disabled") == false)
  }

  @Test func whoInsistsIsTold() throws {
    guard let made = makeRefused(.uring) else { return }
    let error = #expect(throws: IOError.self) { try made.result?.get() }
    #expect(error?.code == .unavailable)
    #expect(error?.message.contains("Operation not permitted") == true)
  }

  @Test func threadsOnDemandAreNoRefusal() throws {
    let broker = try makeBroker(.threads)
    #expect(!broker.capabilities.usesUring)
    #expect(broker.capabilities.refusal == nil)
  }

  /// Foreground I/O would get the CPU time of background otherwise.
  // R-DISK-01
  @Test(arguments: backends)
  func aBrokerOfABackgroundJobIsOfTheForegroundsClass(backend: IOConfiguration.Backend) async throws {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "makes a broker", band: .background)
    // The program's own nice value, if this user may bring it back afterwards.
    var before = opp_sched_params()
    #expect(opp_thread_get_sched(getpid(), &before) == 0)
    let original = before
    before.nice = min(19, before.nice + 1)
    if getuid() != 0 || opp_thread_set_sched(getpid(), &before) != 0 { before = original }
    defer {
      var original = original
      if before.nice != original.nice { _ = opp_thread_set_sched(getpid(), &original) }
    }
    let lines = Lines()
    let broker = try await app.task {
      var configuration = IOConfiguration()
      configuration.backend = backend
      return try IOBroker(configuration: configuration, logger: lines.logger)
    }.value
    var probe = opp_system_probe()
    let canSetSlice = opp_system_probe_run(&probe) == 0 && probe.can_set_slice != 0
    let parameters = await withCheckedContinuation { continuation in
      broker.reactor.post(
        Control { _ in
          var parameters = opp_sched_params()
          _ = opp_thread_get_sched(0, &parameters)
          continuation.resume(returning: parameters)
        })
    }
    if lines.all.contains(where: { $0.contains("class") }) {
      print("skipped: this user may not leave the background's class; the logger has said so")
    } else {
      #expect(parameters.policy == OPP_CLASS_NORMAL)
      #expect(parameters.nice == before.nice)
      // That of the foreground's workers, whose requests it carries.
      #expect(parameters.slice_ns == 100_000 || !canSetSlice)
    }
    await broker.shutdown()
    try await scheduler.shutdown()
  }

  /// Behind more requests than there are threads, foreground would wait for background in the threads' queue.
  // R-DISK-01
  @Test func backgroundLeavesAThreadToForeground() async throws {
    let broker = try makeBroker(.threads) {
      $0.threads = 3
      $0.storage = .uncontrolled
    }
    #expect(try await broker.statistics().storage.cap == 2)
  }
}

/// Keeps what is logged.
final class Lines: Sendable {
  private let lines = Mutex<[String]>([])
  var all: [String] { lines.withLock { $0 } }
  var logger: Logger { Logger(telling: { [self] event in lines.withLock { $0.append("\(event.message)") } }) }
}
