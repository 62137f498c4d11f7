import OpportuneFuzz

/// A policy of one's own: how many uploads run at once, by what became of those before. It decides, and does nothing.
struct UploadPolicy {
  var least = 1
  private(set) var limit = 4

  func mayBegin(running: Int) -> Bool { running < limit }
  mutating func ended(wasLost: Bool) { limit = wasLost ? max(least, limit / 2) : min(8, limit + 1) }
}

/// Uploads that begin and end as the bytes say, and what they are promised.
struct UploadProperty: Property {
  let name = "uploads"
  let grain = 2  // bytes of a step
  var least = 1

  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
    var policy = UploadPolicy(least: least)
    var running = 0
    for var bytes in parts(of: input).steps {
      if bytes.flag(), running > 0 {
        let wasLost = bytes.flag()
        log.note("one of \(running) ends, lost: \(wasLost)")
        running -= 1
        policy.ended(wasLost: wasLost)
      } else {
        let begins = policy.mayBegin(running: running)
        log.note("one asks beside \(running), begins: \(begins)")
        if !begins, running == 0 { throw Violation("none runs, and none may begin") }
        if begins { running += 1 }
      }
      if running > 8 { throw Violation("\(running) run, of 8 at most") }
    }
  }
}

func policy() throws {
  print("held: \(try UploadProperty().fuzz(executions: 500) == nil)")
  guard let failure = try UploadProperty(least: 0).fuzz(executions: 500) else { return }
  for step in failure.steps { print(step) }
  print(failure.message)

  var log = StepLog(keeps: true)
  do { try UploadProperty().check(failure.input, &log) } catch { print("not mended: \(error)") }
  print("mended: \(log.count) steps")
}
