import OpportuneBase
import OpportuneFuzz

/// A property of what real threads do: the bytes choose what is done, and a world does it on the library
/// itself. When the threads come to it is left to them.
protocol ThreadsProperty: DrawnProperty {
  associatedtype World: ThreadsWorld where World.Subject == Self

  /// More steps than these are not done.
  static var stepsMax: Int { get }
}

protocol ThreadsWorld {
  associatedtype Subject

  init(_ bytes: inout ByteSource, _ property: Subject, _ log: inout StepLog) throws(Violation)
  func step(_ bytes: inout ByteSource, _ log: inout StepLog) throws(Violation)
  /// Judges what has been seen so far.
  func judge(_ log: inout StepLog) throws(Violation)
  /// Waits for what is still to come, and judges that.
  func end(_ log: inout StepLog) throws(Violation)
  /// Takes down what was made, also after a violation.
  func close()
}

extension ThreadsProperty {
  package var tries: Int { 20 }

  package func draw(_ generator: inout SplitMix64) -> [UInt8] {
    generator.bytes(head + grain * Int.random(in: 1...Self.stepsMax, using: &generator))
  }

  package func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
    var (head, steps) = parts(of: input)
    let world = try World(&head, self, &log)
    defer { world.close() }
    for var bytes in steps.prefix(Self.stepsMax) {
      try world.step(&bytes, &log)
      try world.judge(&log)
    }
    try world.end(&log)
  }
}
