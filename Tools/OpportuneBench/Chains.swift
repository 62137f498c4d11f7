import Glibc
import OpportuneBase
import Synchronization

/// One chain of CPU-bound jobs: a link is never interrupted by itself, and each submits or causes the next.
struct Chain: Sendable {
  let state: WindowState
  /// Iterations of one link.
  let link: UInt64
  /// Iterations between two looks at the clock and at the window's end; about 200 us.
  let chunk: UInt64
  let touchesMemory: Bool
  /// The first chunk of a link is done with the shared lock held.
  var sharesLock = false
  let submit: @Sendable (@escaping Job) -> Bool

  /// Submits the first link; each submits the next.
  func startLinked() {
    state.submit(
      {
        runLink()
        if !state.isStopping.load(ordering: .relaxed) { startLinked() }
      }, with: submit)
  }

  /// Submits one link, which nothing follows.
  func startOnce() { state.submit({ runLink() }, with: submit) }

  /// A thread of its own submits a link whenever one has ended, until the window's end.
  func startOutside() throws(BenchError) -> SystemThread {
    try SystemThread(named: "outside") {
      while !state.isStopping.load(ordering: .relaxed) {
        let ended = Gate()
        let accepted = state.submit(
          {
            runLink()
            ended.open()
          }, with: submit)
        if !accepted { break }
        ended.wait()
      }
    }
  }

  /// One task that yields between links where the contender has tasks, else a linked chain.
  func startYielding(with contender: any Contender) {
    state.outstanding.add(1, ordering: .relaxed)
    let isTask = contender.startYieldingHog(
      {
        runLink()
        return !state.isStopping.load(ordering: .relaxed)
      },
      ended: { state.outstanding.subtract(1, ordering: .releasing) })
    if !isTask {
      state.outstanding.subtract(1, ordering: .relaxed)
      startLinked()
    }
  }

  private func runLink() {
    var left = link
    var before = SystemClock.threadCPU()
    while left > 0 && !state.isStopping.load(ordering: .relaxed) {
      let now = min(left, chunk)
      let work = { state.sink.store(SpinWork.burn(now, seed: left), ordering: .relaxed) }
      if sharesLock && left == link { state.shared.withLock { _ in work() } } else { work() }
      if touchesMemory { MemoryTraffic.run(mappedBytes: 256 << 10, blocks: 32) }
      left -= now
      let after = SystemClock.threadCPU()
      state.work.add(now, ordering: .relaxed)
      state.backgroundCPU.add(elapsed(from: before, to: after), ordering: .relaxed)
      before = after
    }
  }
}

/// Allocating, mapping, faulting and unmapping.
enum MemoryTraffic {
  /// Maps `mappedBytes`, touches every page and unmaps them; allocates, fills and frees `blocks` blocks.
  static func run(mappedBytes: Int, blocks: Int) {
    if let map = mmap(nil, mappedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
      map != MAP_FAILED
    {
      var offset = 0
      while offset < mappedBytes {
        map.storeBytes(of: 1, toByteOffset: offset, as: UInt8.self)
        offset += 4096
      }
      munmap(map, mappedBytes)
    }
    var kept: [[UInt8]] = []
    for index in 0..<blocks {
      kept.append([UInt8](repeating: UInt8(truncatingIfNeeded: index), count: 64 << (index & 7)))
    }
    withExtendedLifetime(kept) {}
  }
}

/// Foreground jobs that sit in a blocking read of a second each, one pipe per chain, and the thread that
/// writes.
final class Blockers: Sendable {
  private let pipes: [(read: Int32, write: Int32)]
  private let state: WindowState
  private let writer: SystemThread

  init(count: Int, contender: any Contender, state: WindowState) throws(BenchError) {
    var opened: [(read: Int32, write: Int32)] = []
    for _ in 0..<count {
      var ends: [Int32] = [0, 0]
      guard pipe(&ends) == 0 else {
        let code = errno
        for pair in opened {
          close(pair.read)
          close(pair.write)
        }
        throw BenchError.failed("a pipe could not be made", code)
      }
      for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
      opened.append((ends[0], ends[1]))
    }
    let pipes = opened
    self.pipes = pipes
    self.state = state
    // The chains are staggered over the second; the last bytes, at the window's end, free every reader.
    writer = try SystemThread(named: "writer") {
      var turn = 0
      let pause = 1_000_000_000 / UInt64(count)
      var next = SystemClock.now()
      while !state.isStopping.load(ordering: .relaxed) {
        next += pause
        while SystemClock.now() < next && !state.isStopping.load(ordering: .relaxed) {
          SystemClock.sleep(until: min(next, SystemClock.now() + 20_000_000))
        }
        _ = write(pipes[turn % count].write, "x", 1)
        turn += 1
      }
      for pair in pipes { _ = write(pair.write, "xx", 2) }
    }
    for pair in pipes { Self.startLink(reading: pair.read, contender: contender, state: state) }
  }

  /// After the window has been drained.
  func finish() {
    writer.join()
    for pair in pipes {
      close(pair.read)
      close(pair.write)
    }
  }

  private static func startLink(reading file: Int32, contender: any Contender, state: WindowState) {
    state.submit(
      {
        guard !state.isStopping.load(ordering: .relaxed) else { return }
        var byte: UInt8 = 0
        _ = read(file, &byte, 1)
        if !state.isStopping.load(ordering: .relaxed) {
          startLink(reading: file, contender: contender, state: state)
        }
      }, with: contender.submitForegroundHog)
  }
}
