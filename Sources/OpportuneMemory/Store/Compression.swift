internal import CZstd
import Glibc

/// Compresses into zstd frames. One thread at a time.
final class Compressor {
  private let context: OpaquePointer

  /// - Parameter addsChecksum: whether each frame contains a checksum of its content.
  init(addsChecksum: Bool) throws(StoreError) {
    guard let context = ZSTD_createCCtx() else {
      throw StoreError(.system(ENOMEM), "no memory to compress with")
    }
    // The fastest level: the disk is the bottleneck.
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1)
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, addsChecksum ? 1 : 0)
    self.context = context
  }

  deinit { ZSTD_freeCCtx(context) }

  /// Compresses into `room`. Returns the size of the frame; `nil` where it does not fit, or memory is short.
  func compress(_ content: UnsafeRawBufferPointer, into room: UnsafeMutableRawBufferPointer) -> Int? {
    let count = ZSTD_compress2(context, room.baseAddress, room.count, content.baseAddress, content.count)
    return ZSTD_isError(count) == 0 ? count : nil
  }

  /// A frame of a small content, with its checksum.
  static func frame(of content: [UInt8]) throws(StoreError) -> [UInt8] {
    let compressor = try Compressor(addsChecksum: true)
    var frame = [UInt8](repeating: 0, count: ZSTD_compressBound(content.count))
    let count = frame.withUnsafeMutableBytes { room in
      content.withUnsafeBytes { compressor.compress($0, into: room) }
    }
    guard let count else { throw StoreError(.system(ENOMEM), "\(content.count) bytes were not compressed") }
    return Array(frame[..<count])
  }
}

/// Decompresses zstd frames. One thread at a time.
final class Expander {
  private let context: OpaquePointer

  init() throws(StoreError) {
    guard let context = ZSTD_createDCtx() else {
      throw StoreError(.system(ENOMEM), "no memory to expand with")
    }
    self.context = context
  }

  deinit { ZSTD_freeDCtx(context) }

  /// Whether `frame` consists of one or more valid frames whose content fills `room` exactly. Checksums are
  /// verified where present.
  func expand(_ frame: UnsafeRawBufferPointer, into room: UnsafeMutableRawBufferPointer) -> Bool {
    ZSTD_decompressDCtx(context, room.baseAddress, room.count, frame.baseAddress, frame.count) == room.count
  }

  /// The content of one frame with a checksum; `nil` where it is not such a frame, or its content does not
  /// have `count` bytes.
  static func content(of frame: [UInt8], count: Int) throws(StoreError) -> [UInt8]? {
    let expander = try Expander()
    var content = [UInt8](repeating: 0, count: count)
    let isWhole = frame.withUnsafeBytes { frame in
      ZSTD_findFrameCompressedSize(frame.baseAddress, frame.count) == frame.count
        && content.withUnsafeMutableBytes { expander.expand(frame, into: $0) }
    }
    return isWhole ? content : nil
  }
}
