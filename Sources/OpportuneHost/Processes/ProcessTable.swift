internal import COpportuneHost
internal import Glibc

/// A process for as long as it lives: a pid alone may be another's later.
struct ProcessID: Hashable, Sendable {
  let pid: pid_t
  /// In ticks since the machine's start.
  let started: UInt64

  /// Sends a signal to this very process: what is signalled is what a descriptor holds, looked at before.
  ///
  /// - Returns: 0, or the number of the error; `ESRCH` where it has ended.
  @discardableResult func signal(_ number: Int32) -> Int32 {
    let descriptor = opp_host_pidfd_open(pid)
    guard descriptor >= 0 else { return -descriptor }
    defer { close(descriptor) }
    guard ProcessStat(of: pid)?.id == self else { return ESRCH }
    return -opp_host_pidfd_signal(descriptor, number)
  }
}

/// What /proc/PID/stat says.
struct ProcessStat: Sendable {
  let id: ProcessID
  let parent: pid_t
  /// The process group, as a shell makes one of each job.
  let group: pid_t
  let session: pid_t
  /// The device of its controlling terminal, as `stat` tells it; 0: it has none.
  let terminal: UInt32
  /// The foreground process group of that terminal; `nil`: there is none.
  let terminalGroup: pid_t?
  /// A thread of the kernel, which no signal and no group stops.
  let isOfKernel: Bool
  /// As `ps` prints it.
  let state: UInt8
  /// Of all its threads, those that have ended included.
  let ticks: UInt64

  var pid: pid_t { id.pid }
  var hasEnded: Bool { state == UInt8(ascii: "Z") || state == UInt8(ascii: "X") }
  /// By a signal, or by a debugger.
  var isStopped: Bool { state == UInt8(ascii: "T") || state == UInt8(ascii: "t") }

  /// `nil` where there is no such process.
  init?(of pid: pid_t) {
    guard let bytes = SystemFile.bytes("/proc/\(pid)/stat") else { return nil }
    self.init(pid, bytes)
  }

  /// `nil` where it is no line of that file.
  init?(_ pid: pid_t, _ bytes: [UInt8]) {
    // The name may contain anything; what follows its last parenthesis may not.
    guard let end = bytes.lastIndex(of: UInt8(ascii: ")")) else { return nil }
    let fields = bytes[(end + 1)...].split(separator: UInt8(ascii: " "))
    func number(_ place: Int) -> UInt64? { UInt64(String(decoding: fields[place], as: UTF8.self)) }
    guard fields.count > 19, let state = fields[0].first, let parent = number(1), let group = number(2),
      let session = number(3), let flags = number(6), let user = number(11), let system = number(12),
      let started = number(19)
    else { return nil }
    id = ProcessID(pid: pid, started: started)
    self.parent = pid_t(clamping: parent)
    self.group = pid_t(clamping: group)
    self.session = pid_t(clamping: session)
    // Signed, as the kernel prints them.
    func signed(_ place: Int) -> Int32 { Int32(String(decoding: fields[place], as: UTF8.self)) ?? 0 }
    terminal = UInt32(bitPattern: signed(4))
    terminalGroup = signed(5) > 0 ? signed(5) : nil
    isOfKernel = flags & 0x20_0000 != 0  // PF_KTHREAD
    self.state = state
    ticks = user &+ system
  }
}

/// One pass over all processes, made when somebody first needs it, for several groups that are asked in turn.
/// Not for who must not miss a process that is born meanwhile, as one who stops them.
final class ProcessLook {
  private(set) lazy var all = ProcessTable.all()
  private(set) lazy var byID = Dictionary(all.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
  private var marked: [String: [ProcessID]]?

  /// Who carries a mark, for all groups of a host at once.
  func marked(_ mark: String, by known: MarkTable) -> [ProcessID] {
    let marked = self.marked ?? known.marked(of: all)
    self.marked = marked
    return marked[mark] ?? []
  }
}

/// The marks that the processes of a machine carry, which one host has read: each once, since only an exec
/// changes what was read, and whoever execs for an app is a member already.
///
/// Used by one thread at a time.
final class MarkTable {
  private var marks: [ProcessID: String] = [:]

  fileprivate func marked(of all: [ProcessStat]) -> [String: [ProcessID]] {
    var (living, result) = ([ProcessID: String](), [String: [ProcessID]]())
    living.reserveCapacity(all.count)
    for one in all {
      // In the middle of an exec nothing can be told.
      guard let mark = marks[one.id] ?? SignalledGroup.mark(of: one) else { continue }
      living[one.id] = mark
      if !mark.isEmpty { result[mark, default: []].append(one.id) }
    }
    marks = living
    return result
  }
}

enum ProcessTable {
  /// All processes that can be seen.
  static func pids() -> [pid_t] { SystemFile.names(in: "/proc").compactMap { pid_t($0) } }

  /// What they are, one after another: not a state of one moment.
  static func all() -> [ProcessStat] { pids().compactMap { ProcessStat(of: $0) } }

  /// Its parent, that one's parent, and so on.
  static func ancestors(of pid: pid_t) -> [pid_t] {
    var result: [pid_t] = []
    var next = ProcessStat(of: pid)?.parent ?? 0
    while next > 0, !result.contains(next) {
      result.append(next)
      next = ProcessStat(of: next)?.parent ?? 0
    }
    return result
  }

  /// The name of its program, as the kernel keeps it: 15 bytes at most.
  static func command(of pid: pid_t) -> String? {
    SystemFile.text("/proc/\(pid)/comm").map { String($0.prefix { $0 != "\n" }) }
  }

  static func threads(of pid: pid_t) -> [pid_t] {
    SystemFile.names(in: "/proc/\(pid)/task").compactMap { pid_t($0) }
  }

  /// Whether one of its threads waits uninterruptibly.
  static func isInKernel(_ pid: pid_t) -> Bool {
    threads(of: pid).contains { state(of: $0, in: pid) == UInt8(ascii: "D") }
  }

  private static func state(of thread: pid_t, in pid: pid_t) -> UInt8? {
    guard let bytes = SystemFile.bytes("/proc/\(pid)/task/\(thread)/stat"),
      let end = bytes.lastIndex(of: UInt8(ascii: ")")), bytes.count > end + 2
    else { return nil }
    return bytes[end + 2]
  }

  /// Whether all of its threads have stopped; also where it has ended.
  static func hasStopped(_ pid: pid_t) -> Bool {
    let done = [UInt8(ascii: "T"), UInt8(ascii: "t"), UInt8(ascii: "Z"), UInt8(ascii: "X")]
    for thread in threads(of: pid) {
      if let state = state(of: thread, in: pid), !done.contains(state) { return false }
    }
    return true
  }

  /// The user whose process it is; `nil` where it has ended.
  static func user(of pid: pid_t) -> uid_t? {
    var status = stat()
    return stat("/proc/\(pid)", &status) == 0 ? status.st_uid : nil
  }

  /// Bytes that are in main memory, each page divided by how many processes have it. Walks all pages: some
  /// milliseconds for 256 MB.
  ///
  /// - Returns: `nil` where the kernel does not tell it of one of them.
  static func proportionalMemory(of pids: [pid_t]) -> UInt64? {
    var total: UInt64 = 0
    for pid in pids {
      if let bytes = proportionalMemory(of: pid) {
        total += bytes
      } else if ProcessStat(of: pid)?.hasEnded == false {
        return nil
      }
    }
    return total
  }

  private static func proportionalMemory(of pid: pid_t) -> UInt64? {
    guard let text = SystemFile.text("/proc/\(pid)/smaps_rollup") else { return nil }
    for line in text.split(separator: "\n") where line.hasPrefix("Pss:") {
      return line.split(separator: " ").dropFirst().first.flatMap { UInt64($0) }.map { $0 * 1024 }
    }
    return nil
  }

  /// Bytes that are in main memory: what is its own of each, and once the most that one shares.
  static func memory(of pids: [pid_t]) -> UInt64 {
    var own: UInt64 = 0
    var shared: UInt64 = 0
    for pid in pids {
      let fields =
        SystemFile.text("/proc/\(pid)/statm")?.split(separator: " ").compactMap { UInt64($0) } ?? []
      guard fields.count > 2 else { continue }
      own += fields[1] - min(fields[1], fields[2])
      shared = max(shared, fields[2])
    }
    return (own + shared) * UInt64(sysconf(Int32(_SC_PAGESIZE)))
  }
}
