/// The saved state of one app, readable while the store writes other records.
///
/// `@unchecked Sendable`: it only reads the device, which any thread may do while another writes elsewhere.
/// Records are written to free space only.
package struct StoredRecord: @unchecked Sendable {
  let device: any StoreDevice
  let entry: StoreIndex.Entry

  /// The size of the record in bytes.
  package var bytes: Int { entry.length }

  /// Reads the content, part by part. Blocks for the disk. Any thread.
  ///
  /// - Throws: ``StoreError``: `damagedRecord`, also if the app was removed or saved again since; `system`.
  package func load() throws(StoreError) -> [[UInt8]] {
    let reader = try RecordReader(device, entry)
    var parts: [[UInt8]] = []
    for count in reader.counts { parts.append(try Self.next(of: reader, count)) }
    return parts
  }

  /// Reads the first part, and all others directly into the memory that they were written from.
  ///
  /// - Returns: the first part; `nil` where memory could not take its content back: it is in use, of another
  ///   size, or cannot be locked into main memory again. All memory that is not in use is released then.
  /// - Throws: as ``load()``. The memory is released as well.
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
