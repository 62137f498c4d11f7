internal import CZstd
import Glibc

/// Makes frames of zstd. One thread at a time.
final class Compressor {
  private let context: OpaquePointer

  /// - Parameter addsChecksum: whether each frame has one of its content.
  init(addsChecksum: Bool) throws(StoreError) {
    guard let context = ZSTD_createCCtx() else {
      throw StoreError(.system(ENOMEM), "no memory to compress with")
    }
    // The fastest level: what waits is the disk.
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1)
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, addsChecksum ? 1 : 0)
    self.context = context
  }

  deinit { ZSTD_freeCCtx(context) }

  /// Bytes of the frame; `nil` where it does not fit, or there is no memory to make it.
  func compress(_ content: UnsafeRawBufferPointer, into room: UnsafeMutableRawBufferPointer) -> Int? {
    let count = ZSTD_compress2(context, room.baseAddress, room.count, content.baseAddress, content.count)
    return ZSTD_isError(count) == 0 ? count : nil
  }

  /// A frame of little content, with its checksum.
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

/// Reads frames of zstd. One thread at a time.
final class Expander {
  private let context: OpaquePointer

  init() throws(StoreError) {
    guard let context = ZSTD_createDCtx() else {
      throw StoreError(.system(ENOMEM), "no memory to expand with")
    }
    self.context = context
  }

  deinit { ZSTD_freeDCtx(context) }

  /// Whether it is a frame, or several, of exactly as many bytes as there is room for, and its checksum, if
  /// it has one, fits.
  func expand(_ frame: UnsafeRawBufferPointer, into room: UnsafeMutableRawBufferPointer) -> Bool {
    ZSTD_decompressDCtx(context, room.baseAddress, room.count, frame.baseAddress, frame.count) == room.count
  }

  /// The content of one frame with a checksum; `nil` where it is not one, or has other than `count` bytes.
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
