import Glibc

/// The limit of open files, of the bench and of the servers that it starts.
enum DescriptorLimit {
  /// Beside its connections: files of the index, and what schedulers and Dispatch have.
  private static let others = 192

  /// Raises it for so many connections, as far as the process may.
  ///
  /// - Throws: ``BenchError`` with code `unavailable` where it may not.
  static func raise(forConnections count: Int) throws(BenchError) {
    let wanted = rlim_t(count + others)
    var limit = rlimit()
    guard getrlimit(Int32(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < wanted else { return }
    let most = limit.rlim_max
    if wanted <= most {
      limit.rlim_cur = wanted
      if setrlimit(Int32(RLIMIT_NOFILE.rawValue), &limit) == 0 { return }
    }
    throw BenchError(
      .unavailable,
      "\(count) connections need \(wanted) open files, and the limit (RLIMIT_NOFILE) is \(most) here: "
        + "raise it (ulimit -n), or ask for fewer --connections")
  }
}
