import COpportuneExplorer
import OpportuneFuzz
import TestSupport
import Testing

/// The search for a linearization of a history: on handmade histories, and compared with a try of all orders.
@Suite(.bounded) struct LinearTests {
  // R-CARD-09
  /// Whoever compares two operations at a time finds nothing wrong with these.
  @Test func whatNoTwoOperationsShowIsFound() {
    // Four entries: a before b and c before d are put; b before c and d before a are taken, by two consumers.
    var puts = [Operation.put(0), .put(1, after: 0), .put(2), .put(3, after: 2)]
    puts += [.take(1), .take(2, after: 4), .take(3), .take(0, after: 6)]
    #expect(!isLinear(puts))
    puts[7].before = 0
    #expect(isLinear(puts))

    // Never empty, and a consumer finds nothing: it took until a was out, and by then b was in.
    var covered = [Operation.put(0), .takeNothing(after: 0), .put(1), .take(0, after: 2)]
    #expect(!isLinear(covered, left: [1]))
    covered[3].before = 0
    #expect(isLinear(covered, left: [1]))

    // One thread put a, told another, which put b; all there was gave b alone.
    var mail = [Operation.put(0), .put(1, after: 0), .fetch([1])]
    #expect(!isLinear(mail, inOrder: false, left: [0]))
    mail[1].before = 0
    #expect(isLinear(mail, inOrder: false, left: [0]))
  }

  // R-CARD-09
  @Test func whoIsStoppedHasAtMostWhatNobodyElseGot() {
    let stopped = Operation(kind: OPPX_TAKE, isOver: false)
    #expect(isLinear([.put(0), stopped]) && isLinear([.put(0), stopped], left: [0]))
    #expect(!isLinear([.put(0)]) && !isLinear([.put(0), .put(1), stopped]))
    #expect(!isLinear([.put(0), .put(1, after: 0), stopped], left: [0]), "the oldest goes first")
    let pusher = Operation(kind: OPPX_PUT, items: [0], isOver: false)
    #expect(isLinear([pusher]) && isLinear([pusher, .take(0)]) && isLinear([pusher], left: [0]))
    let fetcher = Operation(kind: OPPX_FETCH, isOver: false)
    #expect(isLinear([.put(0), .put(1), fetcher], inOrder: false))
    #expect(
      !isLinear([.put(0), .put(1, after: 0), fetcher, .put(2, after: 1)], inOrder: false, left: [0, 2]))
  }

  // R-CARD-09
  @Test func answersAreThoseOfAllOrders() {
    var random = SplitMix64(seed: 5)
    var linear = 0
    for number in 0..<4000 {
      let inOrder = number % 2 == 0
      let items = Int.random(in: 1...3, using: &random)
      var operations = (0..<items).map { Operation.put($0) }
      var (left, taken) = ([Int](), [Int]())
      for item in (0..<items).shuffled(using: &random) {
        if Int.random(in: 0..<4, using: &random) == 0 { left.append(item) } else { taken.append(item) }
      }
      while !taken.isEmpty {
        let count = inOrder ? 1 : Int.random(in: 1...taken.count, using: &random)
        operations.append(
          Operation(kind: inOrder ? OPPX_TAKE : OPPX_FETCH, items: Array(taken.prefix(count))))
        taken.removeFirst(count)
      }
      operations.append(inOrder ? .takeNothing() : .fetch([]))
      operations.shuffle(using: &random)
      for later in operations.indices {
        for earlier in 0..<later where Int.random(in: 0..<3, using: &random) == 0 {
          operations[later].before |= operations[earlier].before | 1 << UInt64(earlier)
        }
      }
      let expected = hasOrder(operations, inOrder: inOrder, left: left)
      linear += expected ? 1 : 0
      #expect(isLinear(operations, inOrder: inOrder, left: left) == expected, "\(operations), left \(left)")
    }
    #expect((400...3600).contains(linear), "\(linear) of 4000 are linearizable")
  }

  // MARK: Histories

  struct Operation {
    var kind: Int
    var items: [Int] = []
    var isOver = true
    var before: UInt64 = 0

    static func put(_ item: Int, after: Int? = nil) -> Self {
      Self(kind: OPPX_PUT, items: [item], after: after)
    }
    static func take(_ item: Int, after: Int? = nil) -> Self {
      Self(kind: OPPX_TAKE, items: [item], after: after)
    }
    static func takeNothing(after: Int? = nil) -> Self { Self(kind: OPPX_TAKE, items: [], after: after) }
    static func fetch(_ items: [Int]) -> Self { Self(kind: OPPX_FETCH, items: items) }

    init(kind: Int, items: [Int] = [], isOver: Bool = true, after: Int? = nil) {
      (self.kind, self.items, self.isOver) = (kind, items, isOver)
      before = after.map { 1 << UInt64($0) } ?? 0
    }
  }

  private func isLinear(_ operations: [Operation], inOrder: Bool = true, left: [Int] = []) -> Bool {
    var history = oppx_linear_history()
    history.in_order = inOrder
    history.count = UInt32(operations.count)
    withUnsafeMutableBytes(of: &history.operation) { bytes in
      let raw = bytes.assumingMemoryBound(to: oppx_linear_operation.self)
      for (index, operation) in operations.enumerated() {
        raw[index] = oppx_linear_operation(
          kind: UInt8(operation.kind), over: operation.isOver,
          items: operation.items.reduce(0) { $0 | 1 << UInt64($1) }, before: operation.before)
      }
    }
    history.left_count = UInt32(left.count)
    withUnsafeMutableBytes(of: &history.left) { bytes in
      for (index, item) in left.enumerated() { bytes[index] = UInt8(item) }
    }
    var memory = [UInt64](repeating: 0, count: Int(OPPX_LINEAR_MEMORY))
    return oppx_is_linear(&history, &memory) == 1
  }

  /// By trying every order, of operations that are over.
  private func hasOrder(_ operations: [Operation], inOrder: Bool, left: [Int]) -> Bool {
    func goesOn(_ done: UInt64, _ content: [Int]) -> Bool {
      if done == 1 << UInt64(operations.count) - 1 {
        return inOrder ? content == left : Set(content) == Set(left)
      }
      return operations.indices.contains { index in
        let operation = operations[index]
        guard done & 1 << UInt64(index) == 0, operation.before & ~done == 0 else { return false }
        var next = content
        switch operation.kind {
        case OPPX_PUT: next += operation.items
        case OPPX_TAKE where operation.items.isEmpty, OPPX_FETCH:
          guard Set(content) == Set(operation.items) else { return false }
          next = []
        default:
          guard content.first == operation.items.first else { return false }
          next.removeFirst()
        }
        return goesOn(done | 1 << UInt64(index), next)
      }
    }
    return goesOn(0, [])
  }
}
