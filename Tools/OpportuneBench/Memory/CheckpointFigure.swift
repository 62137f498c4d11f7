import Glibc
import OpportuneBase
import ToolSupport

/// Figure 3's rival: CRIU writes a process that holds as much, and brings it back.
struct CheckpointFigure {
  let command: String
  let folder: String

  /// Why it cannot be measured here.
  func obstacle() -> String? {
    do {
      try run(["check"])
      return nil
    } catch {
      return "\(error)"
    }
  }

  /// Seconds of a dump that is on the disk, and of the restoring.
  func measure(mebibytes: Int) throws -> HibernateFigure.Sample {
    let scratch = try ScratchFolder(in: folder)
    let images = "\(scratch.path)/images"
    // Of memory; the other images are small.
    let pages = "\(images)/pages-1.img"
    let holder = try Holder(mebibytes: mebibytes, source: "/dev/urandom", aloneWith: "\(scratch.path)/fifo")
    try holder.waitUntilFull()
    holder.letGo()
    guard mkdir(images, 0o700) == 0 else { throw BenchError.failed("'\(images)' was not made") }
    let start = SystemClock.now()
    try run(["dump", "-t", "\(holder.process)", "-D", images])
    let file = open(pages, O_RDWR | O_NOFOLLOW | O_CLOEXEC)
    guard file >= 0, fsync(file) == 0 else { throw BenchError.failed("'\(pages)' was not synchronised") }
    let dumped = elapsed(from: start, to: SystemClock.now())
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED)
    let size = lseek(file, 0, SEEK_END)
    close(file)
    guard size >= mebibytes << 20 else {
      throw BenchError(.workLost, "CRIU wrote \(size) bytes of \(mebibytes) MiB")
    }
    // CRIU ends what it has written.
    holder.reap()
    let again = SystemClock.now()
    try run(["restore", "-d", "-D", images])
    let restored = elapsed(from: again, to: SystemClock.now())
    guard kill(holder.process, SIGKILL) == 0 else {
      throw BenchError.failed("process \(holder.process) did not come back")
    }
    return HibernateFigure.Sample(hibernate: Double(dumped) / 1e9, reanimate: Double(restored) / 1e9)
  }

  private func run(_ words: [String]) throws {
    let log = try ScratchFile(in: folder)
    let child = try ChildProcess.start([command] + words) { $0.write(to: log, errors: true) }
    guard ChildProcess.wait(for: child) == 0 else {
      let lines = (TextFile.read(log.path) ?? "").split(separator: "\n")
      // The last ones say that it failed, and before them why; some above did no harm.
      let errors = lines.filter { $0.contains("Error") }.suffix(3)
      let why = errors.isEmpty ? lines.last.map(String.init) ?? "no word why" : errors.joined(separator: "; ")
      throw BenchError(.unavailable, "'\(command) \(words[0])': \(why)")
    }
  }
}
