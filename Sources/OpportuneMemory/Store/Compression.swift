internal import CZstd
import Glibc

/// Frames of zstd, each with a checksum of its content.
enum Compression {
  /// Compresses `parts` one after the other into one frame, which goes to `sink` in pieces.
  static func compress(
    _ parts: [UnsafeRawBufferPointer], to sink: (UnsafeRawBufferPointer) throws(StoreError) -> Void
  ) throws(StoreError) {
    guard let context = ZSTD_createCCtx() else { throw StoreError(.system(ENOMEM), "no memory to compress with") }
    defer { ZSTD_freeCCtx(context) }
    // The fastest level: what waits is the disk.
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1)
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1)
    let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: ZSTD_CStreamOutSize(), alignment: 16)
    defer { piece.deallocate() }
    for index in 0...parts.count {
      // The last round has no part, and ends the frame.
      let part = index < parts.count ? parts[index] : UnsafeRawBufferPointer(start: nil, count: 0)
      let directive = index < parts.count ? ZSTD_e_continue : ZSTD_e_end
      var input = ZSTD_inBuffer(src: part.baseAddress, size: part.count, pos: 0)
      while true {
        var output = ZSTD_outBuffer(dst: piece.baseAddress, size: piece.count, pos: 0)
        let left = ZSTD_compressStream2(context, &output, &input, directive)
        guard ZSTD_isError(left) == 0 else {
          throw StoreError(.system(ENOMEM), "not compressed: \(String(cString: ZSTD_getErrorName(left)))")
        }
        if output.pos > 0 { try sink(UnsafeRawBufferPointer(rebasing: piece[..<output.pos])) }
        if directive == ZSTD_e_end ? left == 0 : input.pos == input.size { break }
      }
    }
  }

  /// The content of a frame; `nil` where it is no frame, its checksum does not fit, or it has other than `count` bytes.
  static func expand(_ frame: UnsafeRawBufferPointer, count: Int) -> [UInt8]? {
    guard count >= 0, ZSTD_getFrameContentSize(frame.baseAddress, frame.count) != UInt64.max - 1,
      ZSTD_findFrameCompressedSize(frame.baseAddress, frame.count) == frame.count
    else { return nil }
    var expanded = [UInt8](repeating: 0, count: count)
    let result = expanded.withUnsafeMutableBytes {
      ZSTD_decompress($0.baseAddress, $0.count, frame.baseAddress, frame.count)
    }
    return ZSTD_isError(result) == 0 && result == count ? expanded : nil
  }
}
