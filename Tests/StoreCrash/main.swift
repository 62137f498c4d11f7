// Kills a program during its operations on a hibernation store, again and again, and checks the store each
// time.
//
//     StoreCrash kills COUNT SEED FOLDER [CRASH [SIZE]]    kills COUNT workers at random moments
//     StoreCrash work STORE JOURNAL SEED CRASH DESCRIPTOR SIZE    a worker: continues until it is killed
//
// CRASH says what else happens at each kill. `program`: nothing, so the kernel still has all writes.
// `machine`: the machine crashes as well, and any sectors that were not synchronised are lost.
// `unsynchronised`: the same with a store whose synchronisations do nothing; the check must find it wrong.
// SIZE says how large records are: `small`, up to 96 kB, or `large`, up to 3.2 MB in blocks of each kind.
//
// Exit status 3: the store is wrong. 1: that could not be determined, for example without the folder. 0: the
// store is right.
//
// A worker's operations follow from the seed and a number that counts them. It writes that number to the
// journal before and after each operation. So a reader of the journal knows the two possible contents of the
// store.

import Glibc
import OpportuneMemory
import TestSupport

let isLarge = CommandLine.arguments.last == "large"
/// So that any record fits between the others, however they lie.
let storeBytes = isLarge ? 32 << 20 : 1 << 20
let emptyBytes = storeBytes - (HibernationStore.bytesMin - 4096)

enum Verdict: Int32 {
  case unknown = 1
  case wrong = 3
}

/// The run could not be done, or, as said, has found something.
func fail(_ what: String, _ verdict: Verdict = .unknown) -> Never {
  let line = "StoreCrash: \(what)\n"
  write(STDERR_FILENO, line, line.utf8.count)
  exit(verdict.rawValue)
}

extension StoreError {
  /// What the kernel refuses says nothing of the store.
  var verdict: Verdict { if case .system = code { .unknown } else { .wrong } }
}

enum Crash: String { case program, machine, unsynchronised }

/// Opens the store as a worker, or who looks at what it left, has it.
func openStore(_ path: String, _ crash: Crash) throws(StoreError) -> HibernationStore {
  guard crash != .program else { return try HibernationStore(path: path, bytes: storeBytes) }
  let disk = LosingDisk(of: path, synchronises: crash == .machine)
  return try HibernationStore(path: path, bytes: storeBytes, access: disk)
}

/// One step of a worker, and the content of the store as the model of it.
struct Operation {
  let app: String
  /// `nil`: the app is removed.
  let state: [UInt8]?

  init(_ number: UInt64, seed: UInt64) {
    var generator = SplitMix64(seed: seed &+ number &* 0x2545_F491_4F6C_DD1D)
    app = ["a", "b", "c", "d"].randomElement(using: &generator) ?? "a"
    guard Int.random(in: 0..<4, using: &generator) > 0 else {
      state = nil
      return
    }
    // Of any two saves of an app the states differ; a half of each is easily compressed.
    let count = Int.random(in: 1...(isLarge ? 400_000 : 12_000), using: &generator)
    var words = [number]
    words.reserveCapacity(count)
    while words.count < count {
      // Large ones have blocks of zeros, and blocks that do not compress, as well: 256 KiB each, as the store
      // has them.
      let kind = isLarge ? Int.random(in: 0..<8, using: &generator) : 1
      for index in 0..<min(count - words.count, 32_768 - words.count % 32_768) {
        words.append(kind == 0 ? 0 : kind < 3 && index % 8 < 4 ? number : generator.next())
      }
    }
    state = words.withUnsafeBytes { [UInt8]($0) }
  }

  func apply(to model: inout [String: [UInt8]]) { model[app] = state }

  func apply(to store: HibernationStore) throws(StoreError) {
    guard let state else { return try store.remove(app) }
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: state.count, alignment: 1)
    defer { buffer.deallocate() }
    buffer.copyBytes(from: state)
    try store.save(app, [UnsafeRawBufferPointer(buffer)])
  }
}

/// Two numbers that outlive who writes them: operations begun, and ended.
struct Journal {
  let words: UnsafeMutablePointer<UInt64>

  init(_ path: String) {
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0, ftruncate(descriptor, 4096) == 0,
      let memory = mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), memory != MAP_FAILED
    else { fail("no journal at '\(path)'") }
    close(descriptor)
    words = memory.bindMemory(to: UInt64.self, capacity: 2)
  }

  var begun: UInt64 { words[0] }
  var ended: UInt64 { words[1] }
  // The calls between them, which the compiler cannot see through, keep the two in order; a kill is no
  // reordering.
  func begin(_ number: UInt64) { words[0] = number }
  func end(_ number: UInt64) { words[1] = number }
}

/// Never returns but by being killed. The byte that goes to `ready` says that operations begin.
func work(_ path: String, _ journal: Journal, seed: UInt64, _ crash: Crash, ready: Int32) -> Never {
  do throws(StoreError) {
    let store = try openStore(path, crash)
    var number = journal.ended
    write(ready, "r", 1)
    while true {
      number += 1
      let operation = Operation(number, seed: seed)
      journal.begin(number)
      try operation.apply(to: store)
      journal.end(number)
    }
  } catch { fail("a worker ended: \(error)", error.verdict) }
}

/// Starts a worker and kills it: while it opens the store, or so many microseconds after it began with
/// operations.
func runAndKill(_ arguments: [String], afterOpening: Bool, microseconds: UInt32) {
  var ends: [Int32] = [-1, -1]
  guard pipe(&ends) == 0 else { fail("no pipe") }
  var strings = (["StoreCrash", "work"] + arguments + ["\(ends[1])", isLarge ? "large" : "small"]).map {
    strdup($0)
  }
  defer { for string in strings { free(string) } }
  strings.append(nil)
  var worker: pid_t = 0
  guard posix_spawn(&worker, "/proc/self/exe", nil, nil, strings, environ) == 0 else {
    fail("no worker was started")
  }
  close(ends[1])
  var byte: UInt8 = 0
  // Where it does not begin it has ended, and its status says why.
  if !afterOpening || read(ends[0], &byte, 1) == 1 { usleep(microseconds) }
  kill(worker, SIGKILL)
  var status: Int32 = 0
  guard waitpid(worker, &status, 0) == worker, status & 0x7F == SIGKILL else {
    // Of its own accord, and not because of a trap, only where it could not go on.
    let verdict = status & 0x7F == 0 ? Verdict(rawValue: status >> 8) : .wrong
    fail("a worker ended by itself, with status \(status)", verdict ?? .wrong)
  }
  close(ends[0])
}

/// What a killed worker left: all that must come back.
func contents(_ store: HibernationStore) throws(StoreError) -> [String: [UInt8]] {
  var found: [String: [UInt8]] = [:]
  for app in store.apps { found[app] = try store.load(app).first }
  return found
}

/// Kills `count` workers, one after the other, all on one store but for those few that begin with a new one.
func killWorkers(_ count: Int, seed: UInt64, folder: String, _ crash: Crash) {
  let (path, journalPath) = (folder + "/store", folder + "/journal")
  let journal = Journal(journalPath)
  let disk = crash == .program ? nil : LosingDisk(of: path, synchronises: true)
  // As long as some operations take, however fast the disk and busy the machine: most kills would be in the
  // first otherwise.
  var longest = 8000.0
  var generator = SplitMix64(seed: seed)
  var model: [String: [UInt8]] = [:]
  var (operations, amid, repaired, fresh) = (0 as UInt64, 0, 0, 0)
  for round in 0..<count {
    if round % 16 == 0 {
      unlink(path)
      model = [:]
      fresh += 1
    }
    let from = journal.ended
    disk?.settle(path)
    runAndKill(
      [path, journalPath, "\(seed)", crash.rawValue], afterOpening: round % 4 != 0,
      microseconds: UInt32.random(in: 0..<UInt32(longest), using: &generator))
    // Twice as long where not even one had begun.
    let factor = journal.begun == from ? 2 : journal.ended - from < 3 ? 1.1 : 0.9
    longest = min(max(longest * factor, 500), 200_000)
    disk?.crash(path, using: &generator)
    do throws(StoreError) {
      let store = try HibernationStore(path: path, bytes: storeBytes)
      let found = try contents(store)
      var (ended, begun) = (journal.ended, journal.begun)
      for number in from..<ended { Operation(number + 1, seed: seed).apply(to: &model) }
      operations += ended - from
      var next = model
      if begun > ended {
        amid += 1
        Operation(begun, seed: seed).apply(to: &next)
      }
      repaired += store.repairs
      if found == next {
        ended = begun
      } else if found == model {
        begun = ended
      } else {
        fail(
          "round \(round), seed \(seed): the store is neither as before operation \(begun) nor as after it",
          .wrong)
      }
      model = found
      journal.begin(begun)
      journal.end(ended)
      if round % 8 == 7 {
        // The space accounts.
        for app in store.apps { try store.remove(app) }
        guard store.freeBytes == emptyBytes else {
          fail("\(store.freeBytes) of \(emptyBytes) bytes are free when it is empty", .wrong)
        }
        model = [:]
      }
    } catch { fail("round \(round), seed \(seed): \(error)", error.verdict) }
  }
  print(
    "\(count) kills, \(amid) amid an operation, \(repaired) copies of the index repaired, \(fresh) new stores, "
      + "\(operations) operations: nothing wrong")
  guard amid > 0 else { fail("no kill was amid an operation") }
}

let usage = "expected: kills COUNT SEED FOLDER [program | machine | unsynchronised [small | large]]"
let arguments = CommandLine.arguments.dropFirst()
switch (arguments.first, arguments.count) {
case ("work", 7):
  guard let seed = UInt64(arguments[4]), let crash = Crash(rawValue: arguments[5]),
    let ready = Int32(arguments[6])
  else { fail("no numbers") }
  work(arguments[2], Journal(arguments[3]), seed: seed, crash, ready: ready)
case ("kills", 4...6):
  let crash = arguments.count > 4 ? Crash(rawValue: arguments[5]) : .program
  let isSize = arguments.count < 6 || ["small", "large"].contains(arguments[6])
  guard let crash, isSize, let count = Int(arguments[2]), count > 0, let seed = UInt64(arguments[3]) else {
    fail(usage)
  }
  killWorkers(count, seed: seed, folder: arguments[4], crash)
default: fail(usage)
}
