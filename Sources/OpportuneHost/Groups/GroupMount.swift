/// Where a hierarchy of control groups is mounted, or a part of one. (proc_pid_mountinfo(5))
struct GroupMount: Sendable {
  /// Which part of the hierarchy; `/`: all of it.
  let root: String
  let place: String
  /// Those of version 1; `nil`: it is the hierarchy of version 2.
  let controllers: [String]?

  /// Of this process. It is a line for each mount, of which some machines have hundreds.
  static func all() -> [GroupMount] {
    (SystemFile.text("/proc/self/mountinfo") ?? "").split(separator: "\n").compactMap(GroupMount.init)
  }

  /// - Parameter line: `nil` for that of another file system.
  private init?(_ line: Substring) {
    let words = line.split(separator: " ")
    guard let dash = words.firstIndex(of: "-"), words.count > max(4, dash + 1) else { return nil }
    switch words[dash + 1] {
    case "cgroup2": controllers = nil
    case "cgroup" where words.count > dash + 3:
      controllers = words[dash + 3].split(separator: ",").map(String.init)
    default: return nil
    }
    (root, place) = (String(words[3]), String(words[4]))
  }
}
