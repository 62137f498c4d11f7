import Glibc
import OpportuneBase

/// A program of the memory figure: this program itself, in a process of its own, that takes memory, says so
/// on its standard output, and keeps it as long as the bench is there.
package struct HostMemoryProgram: Sendable, Equatable {
  enum Role: String {
    /// What is behind: fills its memory with what compresses to half, as that of programs does about.
    case hold
    /// What is in front: touches a byte of each page, and looks how long each took.
    case take
  }

  let role: Role
  let mebibytes: Int

  /// From the words that a bench gives it, as `take 256`; `nil`: they are none.
  package init?(_ words: String) {
    let words = words.split(separator: " ")
    guard words.count == 2, let role = Role(rawValue: String(words[0])), let mebibytes = Int(words[1]),
      HostBenchOptions.mebibytes.contains(mebibytes)
    else { return nil }
    self.init(role, mebibytes)
  }

  init(_ role: Role, _ mebibytes: Int) { (self.role, self.mebibytes) = (role, mebibytes) }

  /// How the bench starts it.
  var words: [String] {
    [HostDaemon.program, "bench", "host", "--as-program", "\(role.rawValue) \(mebibytes)"]
  }

  /// What it says when it has all its memory.
  struct Said: Equatable {
    /// When that was, on the clock that all processes have.
    let at: Nanoseconds
    /// The longest that one page took.
    let longest: Nanoseconds
    /// How often it has read a page of it since.
    let beats: Int

    var head: String { "has \(at) \(longest)\n" }
    static let beat: UInt8 = UInt8(ascii: ".")

    init(at: Nanoseconds, longest: Nanoseconds, beats: Int = 0) {
      (self.at, self.longest, self.beats) = (at, longest, beats)
    }

    /// `nil`: it has not said so yet.
    init?(_ text: String) {
      let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
      let words = (lines.first ?? "").split(separator: " ")
      guard lines.count == 2, words.count == 3, words[0] == "has", let at = Nanoseconds(words[1]),
        let longest = Nanoseconds(words[2])
      else { return nil }
      self.init(at: at, longest: longest, beats: lines[1].utf8.count { $0 == Self.beat })
    }
  }

  private static let beatEvery: Nanoseconds = 50_000_000

  /// Ends with the process that has started it.
  package func run() throws {
    let parent = getppid()
    let (length, page) = (mebibytes << 20, Int(getpagesize()))
    guard
      let memory = mmap(nil, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
      memory != MAP_FAILED
    else { throw BenchError.failed("\(mebibytes) MiB were not mapped") }
    let longest = try role == .hold ? fill(memory, length) : touch(memory, length, page)
    Self.say(Said(at: SystemClock.now(), longest: longest).head)
    var place = 0
    while getppid() == parent {
      SystemClock.sleep(until: SystemClock.now() + Self.beatEvery)
      _ = memory.load(fromByteOffset: place, as: UInt8.self)
      place = (place + page) % length
      Self.say(".")
    }
  }

  private func fill(_ memory: UnsafeMutableRawPointer, _ length: Int) throws -> Nanoseconds {
    let source = open("/dev/urandom", O_RDONLY | O_CLOEXEC)
    guard source >= 0 else { throw BenchError.failed("'/dev/urandom' was not opened") }
    defer { close(source) }
    let begin = SystemClock.now()
    let page = Int(getpagesize())
    for start in stride(from: 0, to: length, by: page) {
      // The rest of a page is zero, as it was mapped.
      let filled = inPieces(page / 2) { done in read(source, memory + start + done, page / 2 - done) }
      guard filled.done == page / 2 else { throw BenchError.failed("'/dev/urandom' was not read") }
    }
    return elapsed(from: begin, to: SystemClock.now())
  }

  private func touch(_ memory: UnsafeMutableRawPointer, _ length: Int, _ page: Int) -> Nanoseconds {
    var longest: Nanoseconds = 0
    var before = SystemClock.now()
    for place in stride(from: 0, to: length, by: page) {
      memory.storeBytes(of: 1, toByteOffset: place, as: UInt8.self)
      let now = SystemClock.now()
      longest = max(longest, elapsed(from: before, to: now))
      before = now
    }
    return longest
  }

  private static func say(_ text: String) { _ = write(STDOUT_FILENO, text, text.utf8.count) }
}
