/// What a store has of one app: so that who wants it back need not wait for what the store is writing.
///
/// `@unchecked Sendable`: it only reads the device, which any thread may do beside who writes elsewhere, and records are
/// written to free space alone.
public struct StoredRecord: @unchecked Sendable {
  let device: any StoreDevice
  let entry: StoreIndex.Entry

  /// Bytes that it takes up in the store.
  public var bytes: Int { entry.length }

  /// The content, part by part. Takes as long as the disk does. Any thread.
  ///
  /// - Throws: ``StoreError``: `damagedRecord`, also where the app was removed or saved again since; `system`.
  public func load() throws(StoreError) -> [[UInt8]] {
    let frame = UnsafeMutableRawBufferPointer.allocate(byteCount: entry.length, alignment: 16)
    defer { frame.deallocate() }
    try device.read(frame, at: entry.offset)
    let damaged = StoreError(.damagedRecord, "what was saved of '\(entry.name)' is not what is on the disk")
    guard let content = Compression.expand(UnsafeRawBufferPointer(frame), count: entry.count) else { throw damaged }
    var reader = ByteReader(content[...])
    guard reader.number() == entry.sequence, let length = reader.number(),
      reader.bytes(length) == Array(entry.name.utf8), let count = reader.number(), count <= UInt64(content.count)
    else { throw damaged }
    var counts: [UInt64] = []
    for _ in 0..<count {
      guard let count = reader.number() else { throw damaged }
      counts.append(count)
    }
    var parts: [[UInt8]] = []
    for count in counts {
      guard let part = reader.bytes(count) else { throw damaged }
      parts.append(part)
    }
    return parts
  }
}
