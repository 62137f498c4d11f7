import Glibc

/// Which socket a descriptor's number stands for: the kernel numbers sockets as well, and a number that was closed behind
/// the broker's back may be anybody's. Only for sockets: of a file, `fstat` may wait for its file system.
struct SocketIdentity: Equatable {
  private let device: UInt
  private let inode: UInt

  /// `nil` where the descriptor is not open.
  init?(of descriptor: Int32) {
    var about = stat()
    guard fstat(descriptor, &about) == 0 else { return nil }
    device = UInt(about.st_dev)
    inode = UInt(about.st_ino)
  }
}
