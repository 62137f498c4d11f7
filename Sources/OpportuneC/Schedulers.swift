// The names are those of C.
// swift-format-ignore-file: AlwaysUseLowerCamelCase

#if compiler(>=6.3)
  public import COpportuneC
  internal import Glibc
  internal import OpportuneBase
  internal import OpportuneIO
  internal import OpportuneMemory
  internal import OpportuneScheduler
  internal import Synchronization

  /// A scheduler, and what has been submitted to it through C.
  final class CScheduler: Handled, Sendable {
    static let kind: UInt8 = 1
    static let label = "a scheduler"

    let scheduler: Scheduler
    /// Jobs that are queued or run, and requests.
    let pending: Count
    /// Bytes for all apps; 0 is the machine's memory.
    private let memoryBudget: UInt64
    // Made when they are needed.
    private let io = AtomicLazyReference<IOBroker>()
    private let memory = AtomicLazyReference<MemoryBroker>()

    init(_ configuration: SchedulerConfiguration, memoryBudget: UInt64) throws {
      self.memoryBudget = memoryBudget
      pending = try Count()
      scheduler = try refusing { () throws(SchedulerError) in try Scheduler(configuration: configuration) }
    }

    /// The broker of files and sockets. Of two that are made at once, one ends again: nobody waits.
    func makeIOBroker() throws -> IOBroker {
      if let known = io.load() { return known }
      do throws(IOError) {
        return io.storeIfNil(try IOBroker())
      } catch {
        throw Refusal(error)
      }
    }

    /// The broker of memory, as makeIOBroker().
    func makeMemoryBroker() throws -> MemoryBroker {
      if let known = memory.load() { return known }
      var configuration = MemoryConfiguration()
      if memoryBudget > 0 { configuration.limit = .budget(memoryBudget) }
      return memory.storeIfNil(
        try refusing { () throws(MemoryError) in try MemoryBroker(configuration: configuration) })
    }

    /// Ends all requests, of apps that exist.
    func endIO() async { await io.load()?.shutdown() }

    func checkIsElsewhere(_ what: String) throws {
      guard !oppl_runs_job_of(pending.raw) else {
        throw Refusal(EDEADLK, "a job of the scheduler would wait for itself: \(what)")
      }
    }
  }

  extension Refusal {
    init(_ error: SchedulerError) {
      let number: CInt =
        switch error.code {
        case .configuration: EINVAL
        case .shutDown, .threadEnding: ESHUTDOWN
        case .outOfMemory: ENOMEM
        case .tooManyApps: ENOSPC
        case .threadsUnavailable: EAGAIN
        case .poolDisabled: ENOTSUP
        case .jobsStillRunning: ETIMEDOUT
        default: EIO
        }
      self.init(number, error.message)
    }
  }

  /// Runs `body`, and says by an error number what a scheduler refuses.
  func refusing<Result>(_ body: () throws(SchedulerError) -> Result) throws -> Result {
    do {
      return try body()
    } catch {
      throw Refusal(error)
    }
  }

  @c @implementation
  public func opportune_version() -> UInt32 {
    UInt32(OPPORTUNE_VERSION_MAJOR) << 16 | UInt32(OPPORTUNE_VERSION_MINOR) << 8
      | UInt32(OPPORTUNE_VERSION_PATCH)
  }

  @c @implementation
  public func opportune_last_error() -> UnsafePointer<CChar>? { oppl_said() }

  // MARK: Settings

  extension opportune_settings {
    fileprivate static var defaults: opportune_settings {
      let configuration = SchedulerConfiguration()
      var settings = opportune_settings()
      settings.size = UInt32(MemoryLayout<opportune_settings>.size)
      settings.quantum = UInt64(configuration.quantum.quantum.clampedNanoseconds)
      settings.blocking_gap = UInt64(configuration.quantum.blockingGap.clampedNanoseconds)
      settings.off_cpu_share = configuration.quantum.offCPUShare
      settings.demotion_step = UInt32(configuration.quantum.step)
      settings.recovery = Int32(OPPORTUNE_RECOVERY_FULL.rawValue)
      settings.overlap = UInt32(configuration.bands.overlap)
      settings.background_class = Int32(OPPORTUNE_BACKGROUND_IDLE.rawValue)
      settings.demoted_per_core = UInt32(configuration.demotedLimitPerCore)
      settings.max_apps = UInt32(configuration.maximumApps)
      settings.spare_delay = UInt64(configuration.spareDelay.clampedNanoseconds)
      settings.statistics = 1
      settings.foreground_share = 0.7
      return settings
    }

    /// The settings of a caller that may know more or fewer of them.
    fileprivate init(read place: UnsafePointer<opportune_settings>) throws {
      self = .defaults
      let given = Int(place.pointee.size)
      guard given >= Self.smallest, given <= 4096, given % 8 == 0 else {
        throw Refusal.invalid("settings.size is \(given); call opportune_settings_init() first")
      }
      let known = min(given, MemoryLayout<Self>.size)
      let bytes = UnsafeRawPointer(place)
      for at in known..<max(given, known) where bytes.load(fromByteOffset: at, as: UInt8.self) != 0 {
        throw Refusal.invalid("settings has a setting that this library does not know, at byte \(at)")
      }
      withUnsafeMutableBytes(of: &self) {
        $0.copyMemory(from: UnsafeRawBufferPointer(start: bytes, count: known))
      }
    }

    /// The size of the first version.
    fileprivate static var smallest: Int { 88 }

    fileprivate func configuration() throws -> SchedulerConfiguration {
      var configuration = SchedulerConfiguration()
      // NULL keeps the default.
      if let name = try text(name, "settings.name") { configuration.name = name }
      if workers > 0 { configuration.workers = .fixed(Int(workers)) }
      configuration.quantum = QuantumPolicy(
        quantum: .nanoseconds(Int64(clamping: quantum)), step: Int(demotion_step),
        recovery: try Self.choose(
          recovery, [.full, .oneStep, .never] as [QuantumPolicy.Recovery], "settings.recovery"),
        blockingGap: .nanoseconds(Int64(clamping: blocking_gap)), offCPUShare: off_cpu_share)
      do {
        configuration.bands = try .overlapping(by: Int(overlap))
      } catch {
        throw Refusal.invalid("settings: \(error.message)")
      }
      configuration.backgroundClass = try Self.choose(
        background_class, [.idle, .nice19, .nice19LongSlice] as [BackgroundClass], "settings.background_class"
      )
      configuration.demotedLimitPerCore = Int(demoted_per_core)
      configuration.maximumApps = Int(max_apps)
      configuration.spareDelay = .nanoseconds(Int64(clamping: spare_delay))
      if try Self.choose(Int32(clamping: real_time), [false, true], "settings.real_time") {
        configuration.pools.insert(.realTime)
      }
      let shares = ForegroundClass.shareRange
      guard shares.contains(foreground_share) else {
        throw Refusal.invalid("settings.foreground_share is \(foreground_share); expected \(shares)")
      }
      if foreground_quantum > 0 {
        configuration.foregroundClass = .realTime(
          quantum: .nanoseconds(Int64(clamping: foreground_quantum)), share: foreground_share)
      }
      configuration.collectsStatistics = try Self.choose(
        Int32(clamping: statistics), [false, true], "settings.statistics")
      return configuration
    }

    private static func choose<Value>(_ number: Int32, _ values: [Value], _ name: String) throws -> Value {
      guard values.indices.contains(Int(number)) else {
        throw Refusal.invalid("\(name) is \(number); expected 0 to \(values.count - 1)")
      }
      return values[Int(number)]
    }
  }

  @c @implementation
  public func opportune_settings_init(
    _ settings: UnsafeMutablePointer<opportune_settings>?, _ size: UInt32
  ) -> CInt {
    call {
      let settings = try required(settings, "settings")
      guard size >= opportune_settings.smallest, size <= 4096, size % 8 == 0 else {
        throw Refusal.invalid("size is \(size); expected sizeof(opportune_settings)")
      }
      var defaults = opportune_settings.defaults
      defaults.size = size
      fill(settings, size, defaults)
      return 0
    }
  }

  // MARK: Life

  @c @implementation
  public func opportune_scheduler_create(
    _ settings: UnsafePointer<opportune_settings>?, _ scheduler: UnsafeMutablePointer<OpaquePointer?>?
  ) -> CInt {
    create(scheduler, "scheduler") {
      let budget = try settings.map { try opportune_settings(read: $0).memory_budget } ?? 0
      let configuration =
        if let settings { try opportune_settings(read: settings).configuration() } else {
          SchedulerConfiguration()
        }
      return try CScheduler(configuration, memoryBudget: budget)
    }
  }

  @c @implementation
  public func opportune_scheduler_destroy(_ scheduler: OpaquePointer?, _ timeout: Int64) -> CInt {
    call {
      guard scheduler != nil else { return 0 }
      let own = try CScheduler.at(scheduler)
      try own.checkIsElsewhere("opportune_scheduler_destroy()")
      // To one caller alone.
      try CScheduler.release(scheduler)
      // A year, since the monitor counts from now.
      let limit = Duration.nanoseconds(timeout < 0 ? 31_536_000_000_000_000 : timeout)
      let inner = own.scheduler
      // Before the workers, which tell the results. A write that the kernel does not end is left to it.
      try? waiting(timeout, for: "requests have not ended") { await own.endIO() }
      let error = try waiting(-1, for: "the scheduler has not ended") { () -> SchedulerError? in
        do throws(SchedulerError) {
          try await inner.shutdown(within: limit)
          return nil
        } catch {
          return error
        }
      }
      if let error { throw Refusal(error) }
      return 0
    }
  }

  @c @implementation
  public func opportune_scheduler_wait(_ scheduler: OpaquePointer?, _ timeout: Int64) -> CInt {
    call {
      let own = try CScheduler.at(scheduler)
      try own.checkIsElsewhere("opportune_scheduler_wait()")
      try own.pending.wait(timeout, for: "\(own.pending.value) jobs are queued or run")
      return 0
    }
  }

  @c @implementation
  public func opportune_scheduler_width(_ scheduler: OpaquePointer?) -> CInt {
    call { try CScheduler.with(scheduler) { CInt(clamping: $0.scheduler.width) } }
  }

  @c @implementation
  public func opportune_scheduler_put_thread_in_foreground(_ scheduler: OpaquePointer?) -> CInt {
    call { try CScheduler.with(scheduler) { $0.scheduler.putCallingThreadInForeground() ? 1 : 0 } }
  }

  // MARK: Statistics

  @c @implementation
  public func opportune_scheduler_read_statistics(
    _ scheduler: OpaquePointer?, _ statistics: UnsafeMutablePointer<opportune_scheduler_statistics>?,
    _ size: UInt32, _ timeout: Int64
  ) -> CInt {
    call {
      let own = try CScheduler.at(scheduler)
      let place = try required(statistics, "statistics")
      guard size > 0 else { throw Refusal.invalid("size is 0") }
      let inner = own.scheduler
      let known = try waiting(timeout, for: "the monitor has not answered") { await inner.statistics() }
      var figures = opportune_scheduler_statistics()
      figures.apps = UInt64(known.apps.count)
      figures.pending = own.pending.value
      figures.queue_memory = known.queueMemory
      figures.lock_inversions = known.lockInversions
      figures.lock_holders_raised = known.lockHoldersRaised
      figures.cpus_cleared = known.cpusCleared
      withUnsafeMutableBytes(of: &figures.pools) { bytes in
        let pools = bytes.bindMemory(to: opportune_pool_statistics.self)
        for pool in known.pools {
          pools[Int(pool.pool.rawValue)] = opportune_pool_statistics(
            working: UInt32(clamping: pool.working), demoted: UInt32(clamping: pool.demoted),
            sleeping: UInt32(clamping: pool.sleeping), reserved: 0, wakeups: pool.wakeups,
            replaced: pool.replaced)
        }
      }
      if let realTime = known.realTimeForeground {
        let access =
          switch realTime.access {
          case .refused: OPPORTUNE_ACCESS_REFUSED
          case .realtimeKit: OPPORTUNE_ACCESS_REALTIME_KIT
          case .roundRobin: OPPORTUNE_ACCESS_ROUND_ROBIN
          }
        figures.real_time_access = access.rawValue
        figures.real_time_left = realTime.jobsLeft
        figures.real_time_exhausted = realTime.exhausted
      }
      fill(place, size, figures)
      return 0
    }
  }
#endif
