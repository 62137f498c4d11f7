/// What a store has of one app: so that who wants it back need not wait for what the store is writing.
///
/// `@unchecked Sendable`: it only reads the device, which any thread may do beside who writes elsewhere, and
/// records are written to free space alone.
package struct StoredRecord: @unchecked Sendable {
  let device: any StoreDevice
  let entry: StoreIndex.Entry

  /// Bytes that it takes up in the store.
  package var bytes: Int { entry.length }

  /// The content, part by part. Takes as long as the disk does. Any thread.
  ///
  /// - Throws: ``StoreError``: `damagedRecord`, also where the app was removed or saved again since;
  ///   `system`.
  package func load() throws(StoreError) -> [[UInt8]] {
    let reader = try RecordReader(device, entry)
    var parts: [[UInt8]] = []
    for count in reader.counts { parts.append(try Self.next(of: reader, count)) }
    return parts
  }

  /// Reads the first part, and the others straight into the memory that they were written from.
  ///
  /// - Returns: the first part; `nil` where memory did not take its content back: it is in use, of another
  ///   size, or cannot be locked into main memory again. All of it that is not in use is given back then.
  /// - Throws: as ``load()``. The memory is given back as well.
  package func load(into memory: [HeldMemory]) throws(StoreError) -> [UInt8]? {
    let reader = try RecordReader(device, entry)
    guard reader.counts.count == memory.count + 1 else { return nil }
    let first = try Self.next(of: reader, reader.counts[0])
    do throws(StoreError) {
      for (held, count) in zip(memory, reader.counts.dropFirst()) {
        guard try held.comeBack(count: count, from: reader) else {
          for memory in memory { memory.giveBack() }
          return nil
        }
      }
    } catch {
      for memory in memory { memory.giveBack() }
      throw error
    }
    return first
  }

  private static func next(of reader: RecordReader, _ count: Int) throws(StoreError) -> [UInt8] {
    var failure: StoreError?
    let part = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
      do throws(StoreError) {
        try reader.next(
          into: UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[..<count]))
        filled = count
      } catch {
        failure = error
      }
    }
    if let failure { throw failure }
    return part
  }
}
