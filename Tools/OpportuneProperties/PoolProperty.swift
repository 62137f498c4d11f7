import OpportuneBase
import OpportuneFuzz
import OpportuneModels
import OpportuneScheduler

/// Random hogs, short jobs, floods of them, jobs on trial and jobs that block, of the pools of the foreground
/// and the background in virtual time, against what ``PoolPolicy`` promises; see ``PoolModel``.
struct PoolProperty: DrawnProperty {
  let name = "pool-policy"
  let summary =
    "No run token is lost, there is one spare worker at most, each step is for a worker that it fits; each fresh "
    + "job begins within what is promised, whatever hogs, floods and blocked jobs do; hogs are lowered, trials "
    + "ended, jobs follow their apps' bands and who waits for them, and the background's tokens do not stay with "
    + "who is blocked."
  let head = 1
  let grain = 6
  var bugs = PoolModel.Bugs()

  func draw(_ generator: inout SplitMix64) -> [UInt8] {
    generator.bytes(head + grain * Int.random(in: 1...60, using: &generator))
  }

  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
    var (head, steps) = parts(of: input)
    let kind = head.below(8)
    let (width, canRaise) = (1 + kind % 4, kind < 4)
    var arrival: UInt64 = 0
    var programs: [PoolModel.Program] = []
    var floods = 0
    // Of more the model, which looks at each every tenth of a millisecond, takes seconds.
    for var bytes in steps.prefix(60) {
      var program = Self.program(&bytes, after: arrival)
      arrival = program.arrival
      if program.copies > 1 { floods += 1 }
      if floods > 4 { program.copies = 1 }
      log.note("at \(arrival / 1000) us \(Self.description(of: program))")
      programs.append(program)
    }
    var model = PoolModel(width: width, canRaise: canRaise, bugs: bugs)
    do throws(PoolModel.Violation) { try model.run(programs) } catch {
      throw Violation("\(width) CPUs: \(error.text)")
    }
  }

  private static func description(of program: PoolModel.Program) -> String {
    let parts = program.parts.map { $0 < 10_000 ? "\($0) ns" : "\($0 / 1000) us" }.joined(separator: ", ")
    let words = [
      program.copies > 1 ? "\(program.copies) times " : "",
      program.pool == .background ? "in the background " : "", program.hasSunk ? "of the foreground " : "",
      program.mayBeShort ? "held back " : "", program.depth > 0 ? "depth \(program.depth) " : "",
    ]
    let changes = [
      ("moves", program.movesAfter), ("returns", program.returnsAfter), ("is awaited", program.awaitedAfter),
    ].compactMap { what, time in time.map { ", \(what) after \($0 / 1000) us" } }
    let wait = program.parts.count > 1 ? " (waits: \(program.wait))" : ""
    return "\(words.joined())of origin \(program.origin): \(parts)\(wait)\(changes.joined())"
  }

  private static func program(_ bytes: inout ByteSource, after last: UInt64) -> PoolModel.Program {
    let kind = bytes.byte()
    // Half of them come together.
    let gap = bytes.byte()
    let arrival = last + (gap & 1 == 1 ? UInt64(gap) * 12_000 : 0)
    let short = 20_000 + UInt64(bytes.byte()) * 1500
    let (length, more) = (UInt64(bytes.byte()), bytes.byte())
    let isBackground = kind & 15 >= 13
    var program = PoolModel.Program(
      arrival: arrival, parts: [short], origin: Int(kind >> 4) % 3,
      pool: isBackground ? .background : .foreground)
    switch kind & 15 {
    case 0, 1, 2, 13:
      program.parts = [12_000_000 + length * 270_000]
      // Some are known, or held back.
      program.depth = isBackground ? 0 : [1, 2, 1, 0, 0, 0, 0, 0][Int(more & 7)]
      program.mayBeShort = !isBackground && more & 7 == 2
      program.hasSunk = isBackground && more & 1 == 0
    case 3, 4, 5, 6, 7, 14:
      // Some run on as hogs.
      program.parts = [short, 1_000_000 + length * 780_000, more & 3 == 0 ? 30_000_000 : short]
      program.wait = [.kernel, .memoryMap, .blocked, .blocked][Int(more >> 2 & 3)]
    case 8:
      (program.depth, program.mayBeShort) = (1, true)
    case 9:
      // Of more than a thousand in ten milliseconds the pool is flooded.
      program.parts = [1000 + UInt64(more) * 20]
      program.copies = 60 + Int(length) * 6
    default: break
    }
    // Of one in four the app moves, or somebody waits for it, or both.
    let change = bytes.byte()
    let time = 100_000 + UInt64(change >> 4) * 3_000_000
    if change & 15 < 2 || change & 15 == 4 { program.movesAfter = time }
    if change & 15 == 1 { program.returnsAfter = 2 * time }
    if change & 15 == 2 || change & 15 == 4 { program.awaitedAfter = 2 * time }
    if change & 15 == 3 {
      (program.awaitedAfter, program.movesAfter) = (time, 2 * time)
    }
    return program
  }
}
