import Glibc

/// Makes a segment: tokenises documents one by one, then sorts.
///
/// Owned by one job; what it makes is immutable.
struct SegmentBuilder: ~Copyable {
  private var arena: [UInt8] = []
  private var terms: [(start: UInt32, length: UInt32, hash: UInt32)] = []
  private var table: [UInt32] = Array(repeating: 0, count: 1 << 13)  // term id + 1; 0 is empty
  private var forward: [UInt32] = []
  private var documents: [(id: Int, first: Int)] = []
  /// In `forward`: no term.
  private static let gap = UInt32.max

  init(expectedBytes: Int) {
    arena.reserveCapacity(expectedBytes / 8)
    forward.reserveCapacity(expectedBytes / 5)
  }

  mutating func add(document id: Int, text: [UInt8]) {
    let first = forward.count
    documents.append((id, first))
    var index = 0
    var previousEnd = 0
    text.withUnsafeBufferPointer { text in
      Words.folded.withUnsafeBufferPointer { folded in
        while true {
          while index < text.count && folded[Int(text[index])] == 0 { index += 1 }
          guard index < text.count else { break }
          let start = index
          var hash: UInt32 = 2_166_136_261
          let arenaStart = arena.count
          while index < text.count {
            let byte = folded[Int(text[index])]
            if byte == 0 { break }
            if index - start < Words.indexedMax {
              hash = (hash ^ UInt32(byte)) &* 16_777_619
              arena.append(byte)
            }
            index += 1
          }
          if start - previousEnd > Words.gapMax && forward.count > first { forward.append(Self.gap) }
          previousEnd = index
          forward.append(intern(from: arenaStart, hash: hash))
        }
      }
    }
    forward.append(Self.gap)
  }

  /// Sorts the terms and lists their positions.
  consuming func finish() -> Segment {
    let order = sortedTerms()
    var rankOf = [UInt32](repeating: 0, count: terms.count)
    var text: [UInt8] = []
    text.reserveCapacity(arena.count)
    var textStart: [UInt32] = [0]
    textStart.reserveCapacity(terms.count + 1)
    for (rank, id) in order.enumerated() {
      rankOf[id] = UInt32(rank)
      let term = terms[id]
      text.append(contentsOf: arena[Int(term.start)..<Int(term.start + term.length)])
      textStart.append(UInt32(text.count))
    }
    var postingsStart = [UInt32](repeating: 0, count: terms.count + 1)
    var listed = 0
    for position in forward.indices where forward[position] != Self.gap {
      let rank = rankOf[Int(forward[position])]
      forward[position] = rank
      postingsStart[Int(rank) + 1] += 1
      listed += 1
    }
    for rank in 0..<terms.count { postingsStart[rank + 1] += postingsStart[rank] }
    var next = postingsStart
    var postings = [UInt32](repeating: 0, count: listed)
    for position in forward.indices where forward[position] != Self.gap {
      let rank = Int(forward[position])
      postings[Int(next[rank])] = UInt32(position)
      next[rank] += 1
    }
    return Segment(
      documents: documents, positions: forward.count, text: text, textStart: textStart,
      postingsStart: postingsStart, postings: postings)
  }

  /// Term ids in the order of their bytes; the first eight decide most comparisons.
  private func sortedTerms() -> [Int] {
    var keys: [(key: UInt64, id: Int)] = []
    keys.reserveCapacity(terms.count)
    for (id, term) in terms.enumerated() {
      var key: UInt64 = 0
      for offset in 0..<8 {
        let byte = offset < Int(term.length) ? arena[Int(term.start) + offset] : 0
        key = key << 8 | UInt64(byte)
      }
      keys.append((key, id))
    }
    arena.withUnsafeBufferPointer { arena in
      keys.sort { left, right in
        if left.key != right.key { return left.key < right.key }
        let (a, b) = (terms[left.id], terms[right.id])
        guard let base = arena.baseAddress else { return false }
        let order = memcmp(base + Int(a.start), base + Int(b.start), Int(min(a.length, b.length)))
        return order != 0 ? order < 0 : a.length < b.length
      }
    }
    return keys.map(\.id)
  }

  /// The id of the term at the arena's end, which goes again where it is known.
  private mutating func intern(from start: Int, hash: UInt32) -> UInt32 {
    let length = arena.count - start
    if terms.count * 2 > table.count { growTable() }
    var slot = Int(hash) & (table.count - 1)
    while table[slot] != 0 {
      let id = Int(table[slot]) - 1
      let term = terms[id]
      if term.hash == hash && Int(term.length) == length && isEqual(Int(term.start), start, length) {
        arena.removeLast(length)
        return UInt32(id)
      }
      slot = (slot + 1) & (table.count - 1)
    }
    terms.append((UInt32(start), UInt32(length), hash))
    table[slot] = UInt32(terms.count)
    return UInt32(terms.count - 1)
  }

  private func isEqual(_ left: Int, _ right: Int, _ length: Int) -> Bool {
    arena.withUnsafeBufferPointer { arena in
      guard let base = arena.baseAddress else { return false }
      return memcmp(base + left, base + right, length) == 0
    }
  }

  private mutating func growTable() {
    table = Array(repeating: 0, count: table.count * 2)
    for (id, term) in terms.enumerated() {
      var slot = Int(term.hash) & (table.count - 1)
      while table[slot] != 0 { slot = (slot + 1) & (table.count - 1) }
      table[slot] = UInt32(id + 1)
    }
  }
}
