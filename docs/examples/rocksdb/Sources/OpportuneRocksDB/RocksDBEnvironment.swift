internal import CRocksDB
public import Opportune

/// RocksDB's background work as jobs of a background app: flushes, compactions and deletions run on the
/// scheduler's workers, which the foreground never waits for.
///
/// ```swift
/// let engine = try scheduler.makeApp(named: "rocksdb", band: .background)
/// let environment = RocksDBEnvironment(running: engine)
/// let database = try Database(at: path, environment: environment, options: Database.Options())
/// ```
///
/// Keep it until every database that was opened with it is closed. RocksDB's numbers of threads say how many
/// jobs of a pool may run at once, as ever (`max_background_jobs`).
///
/// While the app is suspended nothing of the database is flushed or compacted: writers wait once the memtables
/// are full, and closing waits for a job that was running, and for a purge of files. A scheduler that is shut
/// down first hands what is left to RocksDB's own threads. Safe to use from any thread.
public final class RocksDBEnvironment: @unchecked Sendable {
  // Immutable; the Env has locks of its own.
  package let raw: OpaquePointer

  /// Makes an environment whose work belongs to `app`.
  ///
  /// - Parameter flushes: whose flushes are; nil: `app`'s as well. Writers wait for a flush once the memtables
  ///   are full. An app of the foreground keeps that wait short where `app` gets little CPU time, as beside
  ///   other programs: a flush that uses more than a quantum is demoted, but not left without a CPU.
  public init(running app: App, flushes: App? = nil) {
    let context = Unmanaged.passRetained(Apps(app: app, flushes: flushes ?? app))
    let host = rocks_host(
      context: context.toOpaque(),
      submit: { context, pool, turn in
        guard let context else { return false }
        let apps = Unmanaged<Apps>.fromOpaque(context).takeUnretainedValue()
        return RocksDBEnvironment.submit(
          Turn(raw: turn), of: pool, to: pool == .high ? apps.flushes : apps.app)
      },
      release: { context in
        if let context { Unmanaged<Apps>.fromOpaque(context).release() }
      })
    guard let raw = rocks_env_create(host) else { preconditionFailure("no memory for an Env of RocksDB") }
    self.raw = raw
  }

  /// Waits for jobs that run.
  deinit { rocks_env_destroy(raw) }

  /// Exactly one of the closures is called, unless this returns false.
  private static func submit(_ turn: Turn, of pool: rocks_pool, to app: App) -> Bool {
    do {
      try app.submit(priority: priority(of: pool), onCancel: { turn.refuse() }, { turn.run() })
      return true
    } catch {
      return false
    }
  }

  /// The rank among the app's own jobs: writers wait for flushes first, and for the last level's compaction
  /// last.
  private static func priority(of pool: rocks_pool) -> TaskPriority {
    switch pool {
    case .bottom: .background
    case .low: .utility
    case .high: .high
    case .user: .medium
    }
  }

  /// What the Env keeps until neither it nor a turn needs it.
  private final class Apps: Sendable {
    let app: App
    let flushes: App

    init(app: App, flushes: App) {
      self.app = app
      self.flushes = flushes
    }
  }

  /// A turn is consumed by the one call that is made with it, on one thread.
  private struct Turn: @unchecked Sendable {
    let raw: OpaquePointer

    func run() { rocks_turn_run(raw) }
    func refuse() { rocks_turn_refuse(raw) }
  }
}
