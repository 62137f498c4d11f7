/// How many workers a scheduler can have under a limit of threads, by the scheduler's own rule.
extension SystemFacts {
  var threadFinding: Diagnosis.Finding {
    guard let room = threadLimits.room else { return .init(.system, "Threads", .ok, found: "no limit") }
    let configuration = SchedulerConfiguration()
    let shares = ThreadShares(
      of: ThreadShares.total(room: max(0, room - 1), live: 0), among: configuration.pools, width: width)
    let foreground = shares.workers[.foreground] ?? 0
    let background = shares.workers[.background] ?? 0
    let configured = width * configuration.demotedLimitPerCore
    let long = ThreadShares.demotedLimit(workers: foreground, width: width, configured: configured)
    let remedy = "Raise the limit (ulimit -u; systemd: LimitNPROC=, TasksMax=; containers: --pids-limit)."
    guard room > configuration.pools.count else {
      return .init(
        .system, "Threads", .missing, found: "\(threadLimits)",
        cost: "A scheduler does not start: it needs a thread for each pool and one to watch them.",
        remedy: remedy)
    }
    guard long < configured || min(foreground, background) <= width else {
      return .init(.system, "Threads", .ok, found: "\(threadLimits)")
    }
    return .init(
      .system, "Threads", .degraded,
      found:
        "\(threadLimits): \(foreground) foreground and \(background) background workers, the rest is the program's",
      cost:
        "\(long) jobs that are known to use the CPU for long run at a time, not \(configured). Once \(foreground) foreground "
        + "jobs are blocked, or turn out to be long, at once, the next waits for the first of them to end.",
      remedy: remedy)
  }
}
