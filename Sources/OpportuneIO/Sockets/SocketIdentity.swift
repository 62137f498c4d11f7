internal import COpportune

/// Which socket a descriptor's number stands for: the kernel numbers sockets as well, and a number that was
/// closed behind the broker's back may be anybody's, such as a file's whose file system hangs: it is not
/// asked.
struct SocketIdentity: Equatable {
  private var device: UInt64 = 0
  private var inode: UInt64 = 0

  /// `nil` where the descriptor is not open.
  init?(of descriptor: Int32) {
    guard opp_file_identity(descriptor, &device, &inode) == 0 else { return nil }
  }
}
