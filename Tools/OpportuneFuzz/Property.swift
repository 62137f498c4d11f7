import OpportuneBase

/// A property: what a piece of code does with the input bytes, and what must hold. One function, called by
/// every driver.
package protocol Property: Sendable {
  /// What `--target` names it by.
  var name: String { get }
  /// Its invariants, in a sentence.
  var summary: String { get }
  /// A bug is planted in it, which must be found.
  var isCanary: Bool { get }
  /// Bytes that an input is cut by when it is made smaller: one step of a machine, one byte of a document.
  var grain: Int { get }
  /// Bytes before the first step, which stay.
  var head: Int { get }
  /// How often an input that failed is run before it is taken to hold; 1, unless real threads take part,
  /// whose schedule follows from no input.
  var tries: Int { get }

  /// An input of the random driver.
  func draw(_ generator: inout SplitMix64) -> [UInt8]
  /// Does what the bytes say; any bytes will do. Says each step to the log before it is done.
  ///
  /// - Throws: ``Violation`` where something does not hold. A trap counts as one too.
  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation)
}

extension Property {
  package var isCanary: Bool { false }
  package var head: Int { 0 }
  package var tries: Int { 1 }

  /// An input as a machine reads it: what comes before the steps, and the bytes of each step.
  package func parts(of input: [UInt8]) -> (head: ByteSource, steps: [ByteSource]) {
    let steps = stride(from: head, to: input.count, by: grain).map { start in
      ByteSource(input[start..<min(start + grain, input.count)])
    }
    return (ByteSource(input.prefix(head)), steps)
  }
}

/// Something that was promised and does not hold.
package struct Violation: Error, Equatable, CustomStringConvertible {
  package let description: String
  package init(_ description: String) { self.description = description }
}

/// The steps of one execution, for people. Counts them only, unless it was told to keep their text.
package struct StepLog: Sendable {
  package private(set) var count: UInt64 = 0
  package private(set) var steps: [String] = []
  private let keeps: Bool

  package init(keeps: Bool) { self.keeps = keeps }

  package mutating func note(_ step: @autoclosure () -> String) {
    count += 1
    if keeps { steps.append(step()) }
  }

  /// More about what the last step did.
  package mutating func add(_ text: @autoclosure () -> String) {
    if keeps, let last = steps.popLast() { steps.append(last + text()) }
  }
}

/// Numbers from bytes. Where they end it gives zeros: the end of an input is an input too.
package struct ByteSource: Sendable {
  private var rest: ArraySlice<UInt8>

  package init(_ bytes: some Collection<UInt8>) { rest = Array(bytes)[...] }

  package var isEmpty: Bool { rest.isEmpty }

  package mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

  /// 0 to `bound` - 1, for bounds of 1 to 65536.
  package mutating func below(_ bound: Int) -> Int {
    bound <= 256 ? Int(byte()) % bound : (Int(byte()) | Int(byte()) << 8) % bound
  }

  package mutating func flag() -> Bool { byte() & 1 == 1 }

  package mutating func choice<Element>(_ values: [Element]) -> Element { values[below(values.count)] }

  package mutating func word() -> UInt64 {
    (0..<8).reduce(0) { word, place in word | UInt64(byte()) << (8 * place) }
  }
}
