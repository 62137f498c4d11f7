import OpportuneMemory

/// The block cache in purgeable memory of an app.
final class PurgeableBlockMemory: BlockMemory {
  private let cache: PurgeableCache<BlockKey>

  init(_ memory: AppMemory, bytes: Int) throws { cache = try memory.cache(costLimit: bytes) }

  func withBlock<Value>(
    _ key: BlockKey, _ body: (UnsafeRawBufferPointer) throws -> Value
  ) throws -> Value? {
    try cache.withBytes(of: key, body)
  }

  /// A block that there is no memory for is read again.
  func insert(_ bytes: UnsafeRawBufferPointer, for key: BlockKey) { _ = try? cache.insert(bytes, for: key) }
}
