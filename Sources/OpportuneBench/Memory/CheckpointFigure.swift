import Glibc

/// Figure 3's rival: CRIU writes a process that holds as much, and brings it back.
struct CheckpointFigure {
  let command: String
  let folder: String

  private var images: String { "\(folder)/opportune-bench-\(getpid()).criu" }
  private var log: String { "\(folder)/opportune-bench-\(getpid()).log" }
  /// Of memory; the other images are small.
  private var pages: String { "\(images)/pages-1.img" }

  /// Why it cannot be measured here.
  func obstacle() -> String? {
    do {
      try run(["check"])
      return nil
    } catch {
      return error.description
    }
  }

  /// Seconds of a dump that is on the disk, and of the restoring.
  func measure(mebibytes: Int) throws(BenchError) -> HibernateFigure.Sample {
    let holder = try Holder(mebibytes: mebibytes, source: "/dev/urandom", folder: folder, isAlone: true)
    try holder.waitUntilFull()
    holder.letGo()
    guard mkdir(images, 0o700) == 0 || errno == EEXIST else { throw .failed("'\(images)' was not made") }
    defer { removeImages() }
    let start = Clock.now()
    try run(["dump", "-t", "\(holder.process)", "-D", images])
    let file = open(pages, O_RDWR | O_CLOEXEC)
    guard file >= 0, fsync(file) == 0 else { throw .failed("'\(pages)' was not synchronised") }
    let dumped = elapsed(from: start, to: Clock.now())
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED)
    let size = lseek(file, 0, SEEK_END)
    close(file)
    guard size >= mebibytes << 20 else {
      throw BenchError(.workLost, "CRIU wrote \(size) bytes of \(mebibytes) MiB")
    }
    // CRIU ends what it has written.
    holder.reap()
    let again = Clock.now()
    try run(["restore", "-d", "-D", images])
    let restored = elapsed(from: again, to: Clock.now())
    guard kill(holder.process, SIGKILL) == 0 else { throw .failed("process \(holder.process) did not come back") }
    return HibernateFigure.Sample(hibernate: Double(dumped) / 1e9, reanimate: Double(restored) / 1e9)
  }

  private func run(_ words: [String]) throws(BenchError) {
    defer { unlink(log) }
    let log = log
    let child = try ChildProcess.start([command] + words) {
      $0.write(to: log, O_WRONLY | O_CREAT | O_TRUNC, errors: true)
    }
    guard ChildProcess.wait(for: child) == 0 else {
      let lines = (TextFile.read(log) ?? "").split(separator: "\n")
      // The last ones say that it failed, and before them why; some above did no harm.
      let errors = lines.filter { $0.contains("Error") }.suffix(3)
      let why = errors.isEmpty ? lines.last.map(String.init) ?? "no word why" : errors.joined(separator: "; ")
      throw BenchError(.unavailable, "'\(command) \(words[0])': \(why)")
    }
  }

  private func removeImages() {
    guard let entries = opendir(images) else { return }
    while let entry = readdir(entries) {
      withUnsafePointer(to: &entry.pointee.d_name) { name in
        name.withMemoryRebound(to: CChar.self, capacity: 256) { _ = unlinkat(dirfd(entries), $0, 0) }
      }
    }
    closedir(entries)
    rmdir(images)
  }
}
