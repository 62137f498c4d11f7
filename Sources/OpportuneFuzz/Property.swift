/// What bytes have a piece of code do, and what must hold then: one function, which every driver calls.
public protocol Property: Sendable {
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
  /// How often an input that failed is run before it is taken to hold; 1, unless real threads take part, whose schedule
  /// follows from no input.
  var tries: Int { get }

  /// An input of the random driver.
  func draw(_ generator: inout SplitMix64) -> [UInt8]
  /// Does what the bytes say; any bytes will do. Says each step to the log before it is done.
  ///
  /// - Throws: ``Violation`` where something does not hold. A trap counts as one too.
  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation)
}

extension Property {
  public var isCanary: Bool { false }
  public var head: Int { 0 }
  public var tries: Int { 1 }

  /// An input as a machine reads it: what comes before the steps, and the bytes of each step.
  public func parts(of input: [UInt8]) -> (head: ByteSource, steps: [ByteSource]) {
    let steps = stride(from: head, to: input.count, by: grain).map { start in
      ByteSource(input[start..<min(start + grain, input.count)])
    }
    return (ByteSource(input.prefix(head)), steps)
  }
}

/// Something that was promised and does not hold.
public struct Violation: Error, Equatable, CustomStringConvertible {
  public let description: String
  public init(_ description: String) { self.description = description }
}

/// The steps of one execution, for people. Counts them only, unless it was told to keep their text.
public struct StepLog: Sendable {
  public private(set) var count: UInt64 = 0
  public private(set) var steps: [String] = []
  private let keeps: Bool

  public init(keeps: Bool) { self.keeps = keeps }

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

  public init(_ bytes: some Collection<UInt8>) { rest = Array(bytes)[...] }

  public var isEmpty: Bool { rest.isEmpty }

  public mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

  /// 0 to `bound` - 1, for bounds of 1 to 65536.
  public mutating func below(_ bound: Int) -> Int {
    bound <= 256 ? Int(byte()) % bound : (Int(byte()) | Int(byte()) << 8) % bound
  }

  public mutating func flag() -> Bool { byte() & 1 == 1 }

  public mutating func choice<Element>(_ values: [Element]) -> Element { values[below(values.count)] }

  public mutating func word() -> UInt64 { (0..<8).reduce(0) { word, place in word | UInt64(byte()) << (8 * place) } }
}

/// SplitMix64: small, and the same sequence for the same seed everywhere.
public struct SplitMix64: RandomNumberGenerator, Sendable {
  private var state: UInt64

  public init(seed: UInt64) { state = seed }

  /// One of many generators of a seed: neither its neighbours' numbers nor those of a neighbouring seed, shifted or not.
  public init(seed: UInt64, number: UInt64) {
    var generator = SplitMix64(seed: seed)
    generator.state = generator.next() ^ number
    state = generator.next()
  }

  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
  }

  /// So many bytes.
  public mutating func bytes(_ count: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count + 8)
    while bytes.count < count {
      let word = next()
      for shift in stride(from: 0, to: 64, by: 8) { bytes.append(UInt8(truncatingIfNeeded: word >> shift)) }
    }
    bytes.removeSubrange(count...)
    return bytes
  }
}
