internal import COpportune
import Glibc

/// How many threads the kernel lets this process have, as far as it says beforehand: each is a task of its
/// user (`RLIMIT_NPROC`) and of its cgroups (`pids.max`). A value.
struct ThreadLimits: Sendable, Equatable {
  /// A limit that counts, and how many tasks count against it.
  struct Limit: Sendable, Equatable {
    var most: Int
    var used: Int

    var room: Int { max(0, most - used) }
  }

  /// `RLIMIT_NPROC`; nil where there is none, or the process is not bound by it. What is used are the
  /// process's own threads, and with `everybody` those of all processes of its user that can be seen.
  var user: Limit?
  /// `pids.max` of that of the process's cgroups which has the least room; nil where none has a limit.
  var group: Limit?

  /// How many more threads may be started, at most; nil where nothing limits them.
  var room: Int? { [user, group].compactMap { $0?.room }.min() }

  /// Of this process. Some twenty small files, below a millisecond; with `everybody` two for each process
  /// that can be seen.
  static func read(everybody: Bool = false) -> ThreadLimits {
    var limits = ThreadLimits()
    var own = rlimit()
    if getrlimit(Int32(__RLIMIT_NPROC.rawValue), &own) == 0, own.rlim_cur != rlim_t.max {
      // The caller's: each thread has an identity of its own, and one that has ended as the process's first
      // keeps an old one.
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

  /// The machine's root is not bound, nor is who may set limits aside. In a user namespace neither counts.
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
  /// "18 by RLIMIT_NPROC, 5 of them used; 100 by the cgroup's pids.max, 40 of them used".
  var description: String {
    let parts = [
      user.map { "\($0.most) by RLIMIT_NPROC, \($0.used) of them used" },
      group.map { "\($0.most) by the cgroup's pids.max, \($0.used) of them used" },
    ].compactMap(\.self)
    return parts.isEmpty ? "none" : parts.joined(separator: "; ")
  }
}

/// How the pools share threads that are few: a pure function of how many there are.
struct ThreadShares: Sendable, Equatable {
  /// The least that a pool works with.
  static let fewest = 1

  /// How many workers each pool may have.
  let workers: [WorkerPool: Int]

  /// The shares of `total` workers: the foreground has what the others leave, which have a quarter each, or
  /// as much as serves all CPUs if that is no more than a third. So what blocks or has sunk in the background
  /// takes none of the foreground's.
  init(of total: Int, among pools: Set<WorkerPool>, width: Int) {
    let share = max(Self.fewest, total / 4, min(width + 1, total / 3))
    let others = pools.subtracting([.foreground])
    var workers = Dictionary(uniqueKeysWithValues: others.map { ($0, share) })
    workers[.foreground] = max(Self.fewest, total - share * others.count)
    self.workers = workers
  }

  /// How many workers a scheduler makes do with that may start `room` threads more and has `live` already,
  /// the monitor not among them: a quarter is the program's, and two at least.
  static func total(room: Int, live: Int) -> Int {
    let all = min(room, 1 << 30) + live
    return max(0, all - max(2, all / 4))
  }

  /// How many tokens a pool of so many workers has: one of them is the spare worker.
  static func tokens(workers: Int, width: Int) -> Int { min(width, max(1, workers - 1)) }

  /// How many demoted jobs may begin in a pool of so many workers. Twice as many may be counted, of jobs that
  /// turned out to be hogs while they ran, and beside those the tokens and the spare worker are to be had
  /// still; but as many as can use the CPUs begin where that leaves half of the workers.
  static func demotedLimit(workers: Int, width: Int, configured: Int) -> Int {
    min(configured, max(1, (workers - width - 1) / 2, min(width, workers / 2)))
  }
}
