import Glibc
import OpportuneFuzz
import OpportuneIO
import SystemPackage

/// A pipe, or a pair of stream sockets, of a few KiB. The end for apps blocks; the driver's end does not.
struct RequestPipe {
  let isSocket: Bool
  let apps: FileDescriptor
  private let own: FileDescriptor
  private static let setSize: Int32 = 1031

  init(isSocket: Bool, appsWrite: Bool) throws(Violation) {
    self.isSocket = isSocket
    guard isSocket else {
      do {
        let (readEnd, writeEnd) = try FileDescriptor.pipe()
        (apps, own) = appsWrite ? (writeEnd, readEnd) : (readEnd, writeEnd)
      } catch { throw Violation("there is no pipe: \(error)") }
      _ = fcntl(own.rawValue, F_SETFL, O_NONBLOCK)
      _ = fcntl(own.rawValue, Self.setSize, 4096)
      return
    }
    var ends: [Int32] = [-1, -1]
    guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0 else {
      throw Violation("there is no pair of sockets: \(Errno(rawValue: errno))")
    }
    (apps, own) = (FileDescriptor(rawValue: ends[0]), FileDescriptor(rawValue: ends[1]))
    _ = fcntl(own.rawValue, F_SETFL, O_NONBLOCK)
    var size: Int32 = 4096
    _ = setsockopt(apps.rawValue, SOL_SOCKET, SO_SNDBUF, &size, socklen_t(MemoryLayout<Int32>.size))
  }

  /// Bytes that nobody has read.
  var waiting: Int {
    var count: Int32 = 0
    return ioctl(apps.rawValue, UInt(FIONREAD), &count) == 0 ? Int(count) : 0
  }

  func put(_ bytes: [UInt8]) throws(Violation) {
    do { _ = try own.writeAll(bytes) } catch { throw Violation("the pipe takes no bytes: \(error)") }
  }

  func takeOut(_ count: Int) -> Int {
    withUnsafeTemporaryAllocation(byteCount: count, alignment: 16) { (try? own.read(into: $0)) ?? 0 }
  }

  func close() {
    for end in [apps, own] { try? end.close() }
  }
}

/// A file of 64 KiB that says of each byte where it is; what is written to it says the same, so it never
/// changes.
struct RequestFile {
  static let size = 64 << 10
  let descriptor: FileDescriptor
  let path: FilePath

  init() throws(Violation) {
    guard let folder = OwnFolder.path else { throw Violation("there is no folder for a file") }
    var name = Array("\(folder)/requests-XXXXXX".utf8CString)
    let number = mkstemp(&name)
    guard number >= 0 else { throw Violation("there is no file: \(Errno(rawValue: errno))") }
    descriptor = FileDescriptor(rawValue: number)
    path = FilePath(platformString: name)
    do { _ = try descriptor.writeAll(Self.bytes(0..<Self.size)) } catch {
      throw Violation("the file is not written: \(error)")
    }
  }

  static func bytes(_ range: Range<Int>) -> [UInt8] { range.map { UInt8($0 % 251) } }

  func close() {
    try? descriptor.close()
    _ = path.withPlatformString { unlink($0) }
  }
}
