/// Memory that hibernation writes, releases to the kernel, and restores with the same content at the same
/// address. (R-MEM-05, R-MEM-07)
public struct HeldMemory: Sendable {
  private enum Place: Sendable {
    case block(MemoryBlock)
    case region(PurgeableRegion)
  }
  private let place: Place

  /// Wraps a block. Nothing is written of a file's block, since its content stays in the file.
  public init(_ block: MemoryBlock) { place = .block(block) }

  /// Wraps purgeable memory whose content cannot be made again after all. Content that is taken before it is
  /// written is not restored.
  public init<Element>(_ memory: Purgeable<Element>) { place = .region(memory.region) }

  /// Calls `body` with the content; empty where there is nothing to write. The content is neither moved nor
  /// taken meanwhile.
  package func withContent<Result, Failure: Error>(
    _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try Self.withContents(of: [self]) { (contents) throws(Failure) in try body(contents[0]) }
  }

  /// Calls `body` with several contents, each empty where there is nothing to write. They are neither moved
  /// nor taken meanwhile.
  package static func withContents<Result, Failure: Error>(
    of memory: [HeldMemory], _ body: ([UnsafeRawBufferPointer]) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let contents = memory.map { $0.hold() }
    defer { for (piece, content) in zip(memory, contents) { piece.letGo(of: content) } }
    return try body(contents)
  }

  private func hold() -> UnsafeRawBufferPointer {
    let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
    switch place {
    case .block(let block): return block.kind == .clean ? nothing : UnsafeRawBufferPointer(block.bytes)
    case .region(let region):
      let pin = region.pin()
      switch pin.found {
      case .intact: return UnsafeRawBufferPointer(start: pin.memory, count: region.bytes)
      case .empty: region.unpinEmpty(isFilled: false)
      case .busy: region.unpinBusy(pin)
      }
      return nothing
    }
  }

  private func letGo(of content: UnsafeRawBufferPointer) {
    if case .region(let region) = place, content.baseAddress != nil { region.unpin() }
  }

  /// Releases the pages, unless the memory is in use.
  package func giveBack() {
    switch place {
    case .block(let block): block.giveBack()
    case .region(let region): _ = region.revoke()
    }
  }

  /// Restores the content from the reader's next part. Memory that was not released keeps its content.
  /// Returns whether the restoration was possible.
  func comeBack(count: Int, from reader: RecordReader) throws(StoreError) -> Bool {
    // Memory without content to write has no bytes in the record.
    guard count > 0 else {
      try reader.next(into: nil)
      return true
    }
    switch place {
    case .block(let block):
      guard count == block.count else { return false }
      return try block.comeBack { (place) throws(StoreError) in try reader.next(into: place, isZero: true) }
    case .region(let region):
      guard count == region.bytes else { return false }
      let pin = region.pin()
      switch pin.found {
      case .intact:
        region.unpin()
        try reader.next(into: nil)
      case .empty:
        region.makeRoom()
        do throws(StoreError) {
          try reader.next(into: UnsafeMutableRawBufferPointer(start: pin.memory, count: count), isZero: true)
        } catch {
          region.unpinEmpty(isFilled: false)
          throw error
        }
        region.unpinEmpty(isFilled: true)
      case .busy:
        region.unpinBusy(pin)
        return false
      }
      return true
    }
  }
}
