internal import COpportune

/// Identifies the socket behind a descriptor number by the kernel's number of the socket. After a close that
/// bypassed the broker, the number may belong to another file, such as one on a file system that hangs. So
/// the identity is read without a request to the file system.
struct SocketIdentity: Equatable {
  private var device: UInt64 = 0
  private var inode: UInt64 = 0

  /// `nil` where the descriptor is not open.
  init?(of descriptor: Int32) {
    guard opp_file_identity(descriptor, &device, &inode) == 0 else { return nil }
  }
}
