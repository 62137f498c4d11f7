internal import COpportune
import Glibc

/// The kernel's limits on this process's threads, as far as they can be read beforehand. Each thread counts
/// against the limit of its user (`RLIMIT_NPROC`) and of its cgroups (`pids.max`). A value.
struct ThreadLimits: Sendable, Equatable {
  /// A limit on tasks, and how many tasks count against it.
  struct Limit: Sendable, Equatable {
    var most: Int
    var used: Int

    var room: Int { max(0, most - used) }
  }

  /// `RLIMIT_NPROC`; nil where there is none, or the process is exempt. `used` counts the process's own
  /// threads; with `everybody`, those of all visible processes of its user.
  var user: Limit?
  /// `pids.max` of the process's cgroup with the least room; nil where none has a limit.
  var group: Limit?

  /// How many more threads may be started, at most; nil where there is no limit.
  var room: Int? { [user, group].compactMap { $0?.room }.min() }

  /// Reads the limits of this process: about twenty small files in less than a millisecond. With `everybody`
  /// it reads two more for each visible process.
  static func read(everybody: Bool = false) -> ThreadLimits {
    var limits = ThreadLimits()
    var own = rlimit()
    if getrlimit(Int32(__RLIMIT_NPROC.rawValue), &own) == 0, own.rlim_cur != rlim_t.max {
      // The calling thread's status: each thread has its own credentials, and a main thread that has ended
      // keeps old ones.
      let status = SmallFile.read("/proc/thread-self/status")
      if isBoundAsUser(status) {
        let others = everybody ? threadsOfOthers(ofUser: getuid()) : 0
        let used = others + (status.flatMap { field("Threads:", of: $0).first } ?? 1)
        limits.user = Limit(most: Int(clamping: own.rlim_cur), used: used)
      }
    }
    var group = opp_task_limit()
    opp_task_limit_read(&group)
    if group.max != .max {
      limits.group = Limit(most: Int(clamping: group.max), used: Int(clamping: group.used))
    }
    return limits
  }

  /// Exempt are the machine's root and holders of a capability to exceed limits. In a user namespace neither
  /// counts.
  private static func isBoundAsUser(_ status: String?) -> Bool {
    let map = SmallFile.read("/proc/self/uid_map")?.split(whereSeparator: \.isWhitespace)
    guard map.map({ $0 == ["0", "0", "4294967295"] }) ?? true else { return true }
    let mayExceed = [Capability.sysResource, .sysAdmin].contains { capability in
      status.flatMap(capability.isEffective(inStatus:)) == true
    }
    return getuid() != 0 && !mayExceed
  }

  private static func threadsOfOthers(ofUser user: uid_t) -> Int {
    guard let folder = opendir("/proc") else { return 0 }
    defer { closedir(folder) }
    var sum = 0
    while let entry = readdir(folder) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) {
        String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
      }
      guard let process = pid_t(name), process != getpid(),
        let status = SmallFile.read("/proc/\(name)/status")
      else { continue }
      if field("Uid:", of: status).first == Int(user) { sum += field("Threads:", of: status).first ?? 0 }
    }
    return sum
  }

  private static func field(_ name: String, of status: String) -> [Int] {
    let line = status.split(separator: "\n").first { $0.hasPrefix(name) }
    return line?.dropFirst(name.count).split(whereSeparator: \.isWhitespace).compactMap { Int($0) } ?? []
  }
}

extension ThreadLimits: CustomStringConvertible {
  /// For example: "18 by RLIMIT_NPROC, 5 of them used; 100 by the cgroup's pids.max, 40 of them used".
  var description: String {
    let parts = [
      user.map { "\($0.most) by RLIMIT_NPROC, \($0.used) of them used" },
      group.map { "\($0.most) by the cgroup's pids.max, \($0.used) of them used" },
    ].compactMap(\.self)
    return parts.isEmpty ? "none" : parts.joined(separator: "; ")
  }
}

/// How the pools share a limited number of threads: a pure function of that number.
struct ThreadShares: Sendable, Equatable {
  /// The minimum of workers of one pool.
  static let fewest = 1

  /// How many workers each pool may have.
  let workers: [WorkerPool: Int]

  /// The shares of `total` workers. Each pool other than the foreground has a quarter, or as many as serve
  /// all CPUs if that is no more than a third. The foreground has the rest. So jobs that block in the
  /// background, or that were demoted to it, take no workers from the foreground.
  init(of total: Int, among pools: Set<WorkerPool>, width: Int) {
    let share = max(Self.fewest, total / 4, min(width + 1, total / 3))
    let others = pools.subtracting([.foreground])
    var workers = Dictionary(uniqueKeysWithValues: others.map { ($0, share) })
    workers[.foreground] = max(Self.fewest, total - share * others.count)
    self.workers = workers
  }

  /// The number of workers for a scheduler that may start `room` more threads and has `live` workers already,
  /// the monitor not counted. A quarter of the threads, at least two, is left to the program.
  static func total(room: Int, live: Int) -> Int {
    let all = min(room, 1 << 30) + live
    return max(0, all - max(2, all / 4))
  }

  /// The run tokens of a pool with this many workers: all but the spare worker, `width` at most.
  static func tokens(workers: Int, width: Int) -> Int { min(width, max(1, workers - 1)) }

  /// How many demoted jobs may begin in a pool with this many workers. Twice as many may be counted, for jobs
  /// that turn out to be hogs while they run. There must then still be workers for the run tokens and the
  /// spare worker. But if half of the workers remain free, as many demoted jobs may begin as can use the
  /// CPUs.
  static func demotedLimit(workers: Int, width: Int, configured: Int) -> Int {
    min(configured, max(1, (workers - width - 1) / 2, min(width, workers / 2)))
  }
}
