import OpportuneApps
import OpportuneMemory

/// An app's image for the switcher, in purgeable memory: it is taken when memory is short, before any app is
/// removed.
struct KeptImage {
  private let content: Purgeable<UInt8>
  private let count: Int

  /// - Throws: ``MemoryError``, also for an image of no bytes.
  init(_ image: [UInt8], of app: AppMemory) throws(MemoryError) {
    content = try app.purgeable(count: image.count, isVolatile: false)
    count = image.count
    content.withContents { found in
      switch found {
      case .intact(let buffer), .purged(let buffer): _ = buffer.update(from: image)
      }
    }
    content.isVolatile = true
  }

  var isVolatile: Bool {
    get { content.isVolatile }
    nonmutating set { content.isVolatile = newValue }
  }

  /// `nil` where it was taken.
  var bytes: [UInt8]? {
    try? content.withContents { (found) throws(Taken) -> [UInt8] in
      switch found {
      case .intact(let buffer): return [UInt8](buffer[..<count])
      // Throws, so that the empty memory does not count as content.
      case .purged: throw Taken()
      }
    }
  }

  private struct Taken: Error {}

  func purge() { _ = try? content.purge() }
}
