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

  /// An app, and what has been submitted to it through C.
  final class CApp: Handled, Sendable {
    static let kind: UInt8 = 2
    static let label = "an app"

    let scheduler: CScheduler
    let app: App
    /// Jobs that are queued or run.
    let pending: Count
    private let io = AtomicLazyReference<AppIO>()
    private let ownMemory = AtomicLazyReference<CMemory>()
    private let terminated = Atomic<Bool>(false)

    init(_ scheduler: CScheduler, _ app: App) throws {
      self.scheduler = scheduler
      self.app = app
      pending = try Count()
    }

    // acquiring: pairs with terminate().
    var isTerminated: Bool { terminated.load(ordering: .acquiring) }

    func checkIsAlive() throws {
      if isTerminated { throw Refusal(ESHUTDOWN, "app \"\(app.name)\" was terminated") }
    }

    /// Files and sockets, made when they are needed. Of two that are made at once, one is forgotten.
    func makeIO() throws -> AppIO {
      if let known = io.load() { return known }
      let broker = try scheduler.makeIOBroker()
      do throws(IOError) {
        return io.storeIfNil(try broker.makeIO(for: app))
      } catch {
        throw Refusal(error)
      }
    }

    var memory: CMemory? { ownMemory.load() }

    /// As makeIO().
    func makeMemory() throws -> CMemory {
      if let known = memory { return known }
      let made = CMemory(try scheduler.makeMemoryBroker().makeMemory(named: app.name), app)
      let own = ownMemory.storeIfNil(made)
      if own === made {
        app.addObserver(made)
        made.appDidChange()
      } else {
        made.memory.setStanding(.gone)
      }
      return own
    }

    /// Ends all requests of the app, and closes its descriptors.
    func endIO() async { await io.load()?.terminate() }

    /// A job or a request begins to count.
    func begins() {
      pending.add()
      scheduler.pending.add()
    }

    func ended() {
      pending.subtract()
      scheduler.pending.subtract()
    }

    func suspend() throws {
      try checkIsAlive()
      app.suspend()
      // [terminated-suspended] seqCst: after the suspension, as terminate() resumes after it has set this.
      // One of the two resumes the app, so that its jobs are cancelled.
      if terminated.load(ordering: .sequentiallyConsistent) { app.resume() }
    }

    /// What is queued is cancelled as it begins: a suspended app is resumed for that.
    func terminate() {
      // seqCst: [terminated-suspended].
      terminated.store(true, ordering: .sequentiallyConsistent)
      app.resume()
    }
  }

  /// A job of C, once it was accepted: it runs once, or is cancelled once.
  final class CJob: @unchecked Sendable {
    // Sendable: constants. The context is handed over to whoever runs the job.
    private let app: CApp
    private let function: @convention(c) (UnsafeMutableRawPointer?) -> Void
    private let cancelled: (@convention(c) (UnsafeMutableRawPointer?) -> Void)?
    private let context: UnsafeMutableRawPointer?

    init(
      _ app: CApp, _ function: opportune_function?, _ cancelled: opportune_function?,
      _ context: UnsafeMutableRawPointer?
    ) throws {
      guard let function else { throw Refusal.invalid("run is NULL") }
      try app.checkIsAlive()
      self.app = app
      self.function = function
      self.cancelled = cancelled
      self.context = context
    }

    /// Counts the job for as long as it is queued or runs; not where it is refused.
    func submit(_ body: () throws(SchedulerError) -> Void) throws {
      app.begins()
      do {
        try refusing(body)
      } catch {
        app.ended()
        throw error
      }
    }

    func run() {
      if app.isTerminated { return cancel() }
      oppl_run(function, context, app.scheduler.pending.raw)
      app.ended()
    }

    func cancel() {
      if let cancelled { oppl_run(cancelled, context, app.scheduler.pending.raw) }
      app.ended()
    }
  }

  func band(_ number: CInt) throws -> Band {
    guard let band = UInt8(exactly: number).flatMap(Band.init(rawValue:)) else {
      throw Refusal.invalid("band is \(number); expected 0 to \(Band.allCases.count - 1)")
    }
    return band
  }

  func priority(_ number: CInt) throws -> TaskPriority {
    let priorities: [TaskPriority] = [.background, .low, .medium, .high, TaskPriority(rawValue: 33)]
    guard priorities.indices.contains(Int(number)) else {
      throw Refusal.invalid("priority is \(number); expected 0 to \(priorities.count - 1)")
    }
    return priorities[Int(number)]
  }

  // MARK: Life

  @c @implementation
  public func opportune_app_create(
    _ scheduler: OpaquePointer?, _ name: UnsafePointer<CChar>?, _ number: CInt,
    _ app: UnsafeMutablePointer<OpaquePointer?>?
  ) -> CInt {
    create(app, "app") {
      let own = try CScheduler.at(scheduler)
      let name = try text(name, "name") ?? ""
      let band = try band(number)
      let made = try refusing { () throws(SchedulerError) in
        try own.scheduler.makeApp(named: name, band: band)
      }
      return try CApp(own, made)
    }
  }

  @c @implementation
  public func opportune_app_release(_ app: OpaquePointer?) -> CInt {
    call {
      try CApp.release(app)
      return 0
    }
  }

  @c @implementation
  public func opportune_app_set_band(_ app: OpaquePointer?, _ number: CInt) -> CInt {
    call {
      try CApp.with(app) { own in
        let band = try band(number)
        try own.checkIsAlive()
        try refusing { () throws(SchedulerError) in try own.app.setBand(band) }
      }
      return 0
    }
  }

  @c @implementation
  public func opportune_app_activate(_ app: OpaquePointer?) -> CInt {
    opportune_app_set_band(app, CInt(Band.foreground.rawValue))
  }

  @c @implementation
  public func opportune_app_background(_ app: OpaquePointer?) -> CInt {
    opportune_app_set_band(app, CInt(Band.background.rawValue))
  }

  @c @implementation
  public func opportune_app_band(_ app: OpaquePointer?) -> CInt {
    call { try CApp.with(app) { CInt($0.app.band.rawValue) } }
  }

  @c @implementation
  public func opportune_app_suspend(_ app: OpaquePointer?) -> CInt {
    call {
      try CApp.with(app) { try $0.suspend() }
      return 0
    }
  }

  @c @implementation
  public func opportune_app_resume(_ app: OpaquePointer?) -> CInt {
    call {
      try CApp.with(app) { own in
        try own.checkIsAlive()
        own.app.resume()
      }
      return 0
    }
  }

  @c @implementation
  public func opportune_app_activity(_ app: OpaquePointer?) -> CInt {
    call {
      try CApp.with(app) { own in
        switch own.app.activity {
        case .active: CInt(OPPORTUNE_ACTIVE.rawValue)
        case .suspending: CInt(OPPORTUNE_SUSPENDING.rawValue)
        case .suspended: CInt(OPPORTUNE_SUSPENDED.rawValue)
        }
      }
    }
  }

  // MARK: Waiting

  @c @implementation
  public func opportune_app_wait_suspended(_ app: OpaquePointer?, _ timeout: Int64) -> CInt {
    call {
      let own = try CApp.at(app)
      try own.scheduler.checkIsElsewhere("opportune_app_wait_suspended()")
      let inner = own.app
      if inner.activity == .suspending {
        try waiting(timeout, for: "a job of app \"\(inner.name)\" still runs") {
          await inner.untilSuspended()
        }
      }
      guard inner.activity == .suspended else {
        throw Refusal(EAGAIN, "app \"\(inner.name)\" is not suspended")
      }
      return 0
    }
  }

  @c @implementation
  public func opportune_app_wait(_ app: OpaquePointer?, _ timeout: Int64) -> CInt {
    call {
      let own = try CApp.at(app)
      try own.scheduler.checkIsElsewhere("opportune_app_wait()")
      let suspended = { own.app.activity == .active ? "" : ", which is suspended," }
      try own.pending.wait(
        timeout, for: "jobs of app \"\(own.app.name)\"\(suspended()) are queued or run")
      return 0
    }
  }

  @c @implementation
  public func opportune_app_terminate(_ app: OpaquePointer?, _ timeout: Int64) -> CInt {
    call {
      let own = try CApp.at(app)
      own.terminate()
      let isInside = oppl_runs_job_of(own.scheduler.pending.raw)
      // A job only has it begun: the requests end by themselves.
      try? waiting(isInside ? 0 : timeout, for: "requests have not ended") { await own.endIO() }
      _ = own.memory?.memory.takeBack()
      try own.scheduler.checkIsElsewhere("opportune_app_terminate()")
      try own.pending.wait(timeout, for: "jobs of app \"\(own.app.name)\" have not ended")
      return 0
    }
  }

  // MARK: Jobs

  @c @implementation
  public func opportune_submit(
    _ app: OpaquePointer?, _ run: opportune_function?, _ context: UnsafeMutableRawPointer?
  ) -> CInt {
    opportune_submit_with(app, CInt(OPPORTUNE_PRIORITY_NORMAL.rawValue), run, nil, context)
  }

  @c @implementation
  public func opportune_submit_with(
    _ app: OpaquePointer?, _ number: CInt, _ run: opportune_function?, _ cancelled: opportune_function?,
    _ context: UnsafeMutableRawPointer?
  ) -> CInt {
    call {
      try CApp.with(app) { own in
        let priority = try priority(number)
        let job = try CJob(own, run, cancelled, context)
        try job.submit { () throws(SchedulerError) in
          try own.app.submit(priority: priority, onCancel: { job.cancel() }, { job.run() })
        }
      }
      return 0
    }
  }

  // MARK: Strands

  final class CStrand: Handled, Sendable {
    static let kind: UInt8 = 3
    static let label = "a strand"

    let app: CApp
    let strand: Strand

    init(_ app: CApp, _ strand: Strand) {
      self.app = app
      self.strand = strand
    }
  }

  @c @implementation
  public func opportune_strand_create(
    _ app: OpaquePointer?, _ name: UnsafePointer<CChar>?, _ number: CInt, _ ceiling: CInt,
    _ strand: UnsafeMutablePointer<OpaquePointer?>?
  ) -> CInt {
    create(strand, "strand") {
      let own = try CApp.at(app)
      try own.checkIsAlive()
      let name = try text(name, "name") ?? ""
      let priority = try priority(number)
      let band = ceiling == OPPORTUNE_NO_CEILING ? nil : try band(ceiling)
      let made = try refusing { () throws(SchedulerError) in
        try own.app.makeStrand(named: name, priority: priority, ceiling: band)
      }
      return CStrand(own, made)
    }
  }

  @c @implementation
  public func opportune_strand_release(_ strand: OpaquePointer?) -> CInt {
    call {
      try CStrand.release(strand)
      return 0
    }
  }

  @c @implementation
  public func opportune_strand_submit(
    _ strand: OpaquePointer?, _ run: opportune_function?, _ context: UnsafeMutableRawPointer?
  ) -> CInt {
    opportune_strand_submit_with(strand, run, nil, context)
  }

  @c @implementation
  public func opportune_strand_submit_with(
    _ strand: OpaquePointer?, _ run: opportune_function?, _ cancelled: opportune_function?,
    _ context: UnsafeMutableRawPointer?
  ) -> CInt {
    call {
      try CStrand.with(strand) { own in
        let job = try CJob(own.app, run, cancelled, context)
        try job.submit { () throws(SchedulerError) in
          try own.strand.submit(onCancel: { job.cancel() }, { job.run() })
        }
      }
      return 0
    }
  }

  @c @implementation
  public func opportune_strand_is_current(_ strand: OpaquePointer?) -> CInt {
    call { try CStrand.with(strand) { $0.strand.isIsolatingCurrentContext() == true ? 1 : 0 } }
  }

  // MARK: Statistics

  @c @implementation
  public func opportune_app_read_statistics(
    _ app: OpaquePointer?, _ statistics: UnsafeMutablePointer<opportune_app_statistics>?, _ size: UInt32
  ) -> CInt {
    call {
      let place = try required(statistics, "statistics")
      guard size > 0 else { throw Refusal.invalid("size is 0") }
      try CApp.with(app) { own in
        let known = own.app.statistics
        var figures = opportune_app_statistics()
        figures.submitted = known.submitted
        figures.pending = own.pending.value
        figures.turns = known.jobs
        figures.cancelled = known.cancelled
        figures.cpu_time = UInt64(clamping: known.cpuTime.clampedNanoseconds)
        figures.demotions = known.demotions
        figures.restored = known.restored
        figures.stolen = known.stolen
        figures.wakeups = known.wakeups
        let quantile = { UInt64(clamping: (known.waiting.quantile($0) ?? .zero).clampedNanoseconds) }
        figures.waiting = opportune_waiting(
          samples: known.waiting.count, p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99),
          max: quantile(1))
        fill(place, size, figures)
      }
      return 0
    }
  }
#endif
