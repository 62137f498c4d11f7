import OpportuneBase

/// A property: what a piece of code does with the bytes of an input, and what must hold.
/// ``fuzz(seed:executions:)`` looks for an input by which it does not.
///
/// A policy is tried by steps: an input is some bytes that choose how it is set up, and `grain` bytes for
/// each event. Called on threads of the fuzzer's own, an input at a time.
public protocol Property: Sendable {
  /// What it is called where a failure is told.
  var name: String { get }
  /// Bytes that an input is cut by when it is made smaller: one step of a machine, one byte of a document; at
  /// least 1.
  var grain: Int { get }
  /// Bytes before the first step, which stay; 0 unless it is said.
  var head: Int { get }

  /// Does what the bytes say; any bytes will do, and the same do the same. Says each step to the log before
  /// it is done.
  ///
  /// - Throws: ``Violation`` where something does not hold. A trap counts as one too.
  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation)
}

extension Property {
  /// None.
  public var head: Int { 0 }

  /// An input as a machine reads it: what comes before the steps, and the bytes of each step.
  public func parts(of input: [UInt8]) -> (head: ByteSource, steps: [ByteSource]) {
    let steps = stride(from: head, to: input.count, by: grain).map { start in
      ByteSource(input[start..<min(start + grain, input.count)])
    }
    return (ByteSource(input.prefix(head)), steps)
  }
}

/// A property with inputs of its own, which `opportune fuzz` runs by its name.
package protocol DrawnProperty: Property {
  /// Its invariants, in a sentence.
  var summary: String { get }
  /// A bug is planted in it, which must be found.
  var isCanary: Bool { get }
  /// How often an input that failed is run before it is taken to hold; 1, unless real threads take part,
  /// whose schedule follows from no input.
  var tries: Int { get }

  /// An input of the random driver.
  func draw(_ generator: inout SplitMix64) -> [UInt8]
}

extension DrawnProperty {
  package var isCanary: Bool { false }
  package var tries: Int { 1 }
}

/// Something that was promised and does not hold.
public struct Violation: Error, Equatable, CustomStringConvertible {
  /// What does not hold, in a sentence.
  public let description: String
  /// - Parameter description: names the values that show it.
  public init(_ description: String) { self.description = description }
}

/// The steps of one execution, for people. Counts them only, unless it was told to keep their text.
public struct StepLog: Sendable {
  /// How many were noted.
  public private(set) var count: UInt64 = 0
  /// Their text, where it is kept.
  public private(set) var steps: [String] = []
  private let keeps: Bool

  /// An empty one; `keeps` says whether text is kept, or only counted.
  public init(keeps: Bool) { self.keeps = keeps }

  /// Adds a step; its text is made only where it is kept.
  public mutating func note(_ step: @autoclosure () -> String) {
    count += 1
    if keeps { steps.append(step()) }
  }

  /// More about what the last step did.
  public mutating func add(_ text: @autoclosure () -> String) {
    if keeps, let last = steps.popLast() { steps.append(last + text()) }
  }
}

/// Numbers from bytes. Where they end it gives zeros: the end of an input is an input too.
public struct ByteSource: Sendable {
  private var rest: ArraySlice<UInt8>

  /// Gives these bytes, from the first one on.
  public init(_ bytes: some Collection<UInt8>) { rest = Array(bytes)[...] }

  /// Whether all were given.
  public var isEmpty: Bool { rest.isEmpty }

  /// The next one.
  public mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

  /// 0 to `bound` - 1, for bounds of 1 to 65536.
  public mutating func below(_ bound: Int) -> Int {
    bound <= 256 ? Int(byte()) % bound : (Int(byte()) | Int(byte()) << 8) % bound
  }

  /// Yes or no, by one byte.
  public mutating func flag() -> Bool { byte() & 1 == 1 }

  /// One of 1 to 65536 values.
  public mutating func choice<Element>(_ values: [Element]) -> Element { values[below(values.count)] }

  /// Any number, by eight bytes.
  public mutating func word() -> UInt64 {
    (0..<8).reduce(0) { word, place in word | UInt64(byte()) << (8 * place) }
  }
}
