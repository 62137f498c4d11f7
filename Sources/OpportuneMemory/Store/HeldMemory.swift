/// Memory of an app that hibernation writes, gives back to the kernel, and brings back with the same content at the same
/// place. (R-MEM-05, R-MEM-07)
public struct HeldMemory: Sendable {
  private enum Place: Sendable {
    case block(MemoryBlock)
    case region(Region)
  }
  private let place: Place

  /// A block; of a file's block nothing is written, since its content stays in its file.
  public init(_ block: MemoryBlock) { place = .block(block) }

  /// Purgeable memory whose content cannot be made again after all. What is taken before it is written stays taken.
  public init<Element>(_ memory: Purgeable<Element>) { place = .region(memory.region) }

  /// The content; empty where there is none to write.
  package func withContent<Result, Failure: Error>(
    _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
    switch place {
    case .block(let block): return try body(block.kind == .clean ? nothing : UnsafeRawBufferPointer(block.bytes))
    case .region(let region):
      let pin = region.pin()
      switch pin.found {
      case .intact:
        defer { region.unpin() }
        return try body(UnsafeRawBufferPointer(start: pin.memory, count: region.bytes))
      case .empty: region.unpinEmpty(isFilled: false)
      case .busy: region.unpinBusy(pin)
      }
      return try body(nothing)
    }
  }

  /// The pages go, unless the memory is in use.
  package func giveBack() {
    switch place {
    case .block(let block): block.giveBack()
    case .region(let region): _ = region.revoke()
    }
  }

  /// The content as it was written; what was not given back keeps what it has. Returns whether that was possible.
  package func comeBack(with content: [UInt8]) -> Bool {
    guard !content.isEmpty else { return true }
    switch place {
    case .block(let block): return content.count == block.count && block.comeBack(with: content)
    case .region(let region):
      guard content.count == region.bytes else { return false }
      let pin = region.pin()
      switch pin.found {
      case .intact: region.unpin()
      case .empty:
        pin.memory.copyMemory(from: content, byteCount: content.count)
        region.unpinEmpty(isFilled: true)
      case .busy:
        region.unpinBusy(pin)
        return false
      }
      return true
    }
  }
}
