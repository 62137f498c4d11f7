import OpportuneBase
import OpportuneFuzz
import OpportuneModels
import OpportuneScheduler

/// Random hogs, short jobs and jobs that block, of a pool of the foreground in virtual time, against what
/// ``PoolPolicy`` promises; see ``PoolModel``.
struct PoolProperty: Property {
  let name = "pool-policy"
  let summary =
    "No run token is lost, there is one spare worker at most, each step is for a worker that it fits, and while "
    + "fresh jobs wait one begins within what is promised, whatever hogs and blocked jobs do."
  let head = 1
  let grain = 5
  /// Steps that a broken monitor does not carry out; for tests of the judge.
  var ignores: @Sendable (PoolPolicy.Step) -> Bool = { _ in false }

  func draw(_ generator: inout SplitMix64) -> [UInt8] {
    generator.bytes(head + grain * Int.random(in: 1...60, using: &generator))
  }

  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
    var (head, steps) = parts(of: input)
    let width = 1 + head.below(4)
    var arrival: UInt64 = 0
    var programs: [PoolModel.Program] = []
    // Of more the model, which looks at each every tenth of a millisecond, takes seconds.
    for var bytes in steps.prefix(60) {
      let program = Self.program(&bytes, after: arrival)
      arrival = program.arrival
      log.note(
        "at \(arrival / 1000) us of origin \(program.origin), depth \(program.depth): "
          + "\(program.parts.map { $0 / 1000 }) us")
      programs.append(program)
    }
    var model = PoolModel(width: width, ignores: ignores)
    do throws(PoolModel.Violation) { try model.run(programs) } catch {
      throw Violation("\(width) CPUs: \(error.text)")
    }
  }

  private static func program(_ bytes: inout ByteSource, after last: UInt64) -> PoolModel.Program {
    let kind = bytes.byte()
    // Half of them come together.
    let gap = bytes.byte()
    let arrival = last + (gap & 1 == 1 ? UInt64(gap) * 12_000 : 0)
    let short = 20_000 + UInt64(bytes.byte()) * 1500
    let (length, more) = (UInt64(bytes.byte()), bytes.byte())
    let origin = Int(kind >> 3) % 3
    switch kind & 7 {
    case 0, 1:
      return .init(
        arrival: arrival, parts: [12_000_000 + length * 270_000], depth: more & 3 == 0 ? 1 : 0, origin: origin
      )
    case 2, 3, 4:
      // Some run on as hogs.
      let rest = more & 3 == 0 ? 30_000_000 : short
      return .init(arrival: arrival, parts: [short, 1_000_000 + length * 780_000, rest], origin: origin)
    default: return .init(arrival: arrival, parts: [short], origin: origin)
    }
  }
}
