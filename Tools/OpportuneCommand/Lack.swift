import ArgumentParser
import Glibc

/// A requirement of a command that its process does not meet: Swift's Dispatch traps without it.
struct Lack {
  /// What there should be, and what there is.
  let what: String
  let why: String
  let remedy: String

  /// Descriptors of a command that has tasks: Dispatch's own, those of a scheduler or two, and its files.
  static let descriptors: rlim_t = 64
  /// Of one that has none, and of `doctor` without: its readers are Foundation's.
  static let fewestDescriptors: rlim_t = 16

  /// Whether `doctor`, which has tasks, can say what there is without them.
  let isOfTasksAlone: Bool

  /// Raises the limit of descriptors where it is too low and that is allowed. Not for `doctor`, which says
  /// what it is.
  static func find(for command: any ParsableCommand) -> Lack? {
    let hasTasks = command is any AsyncParsableCommand
    if hasTasks, access("/proc/self/stat", R_OK) != 0 {
      return Lack(
        what: "/proc, which is not mounted here",
        why: "Swift's Dispatch ends a program that has tasks without it",
        remedy: "Mount /proc: mount -t proc proc /proc", isOfTasksAlone: true)
    }
    var limit = rlimit()
    guard getrlimit(Int32(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
    if limit.rlim_cur < descriptors, limit.rlim_cur < limit.rlim_max, !(command is DoctorCommand) {
      limit.rlim_cur = min(limit.rlim_max, descriptors)
      if setrlimit(Int32(RLIMIT_NOFILE.rawValue), &limit) != 0 {
        getrlimit(Int32(RLIMIT_NOFILE.rawValue), &limit)
      }
    }
    let least = hasTasks ? descriptors : fewestDescriptors
    guard limit.rlim_cur < least else { return nil }
    return Lack(
      what: "\(least) descriptors, and the limit of open files (RLIMIT_NOFILE) is \(limit.rlim_cur) here",
      why: "Swift's Dispatch ends a program that has no descriptor left",
      remedy: "Raise the limit of open files: ulimit -n 1024",
      isOfTasksAlone: limit.rlim_cur >= fewestDescriptors)
  }
}
