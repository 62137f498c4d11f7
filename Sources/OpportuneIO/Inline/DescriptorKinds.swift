internal import COpportune
import Glibc
import Synchronization

/// What kind of file each descriptor is, looked up once from its open to its close: two system calls that
/// many small reads would otherwise repeat.
///
/// A word for each descriptor: the kind, and the count of closes of the descriptor's gate when it was looked
/// up. A close through the broker changes that count, and with it the word means nothing. So does the close
/// of another descriptor with the same gate, which costs one look-up more. Descriptors that are closed behind
/// the broker's back keep their kind until then: the broker's documentation asks not to.
///
/// Any thread.
final class DescriptorKinds: @unchecked Sendable {
  // Sendable: atomic words in memory that is never moved.
  enum Kind: UInt64 {
    /// A regular file or a block device on a device, read through the page cache.
    case cached = 1
    /// The same, opened with `O_DIRECT`.
    case direct = 2
    /// All others: what is served by a program or by a network, what has a peer, what could not be seen.
    case other = 3
  }

  private static let count = 4096
  private let words: UnsafeMutablePointer<Atomic<UInt64>>

  init() {
    words = .allocate(capacity: Self.count)
    for index in 0..<Self.count { (words + index).initialize(to: Atomic(0)) }
  }

  deinit { words.deallocate() }  // an atomic word needs no deinitialization

  /// - Parameter closes: ``InlineGate/closes`` of the descriptor's gate, read before.
  func kind(of descriptor: Int32, since closes: UInt64) -> Kind {
    guard descriptor >= 0 else { return .other }
    guard descriptor < Self.count else { return Self.look(at: descriptor) }
    // relaxed, both: the word is all there is. Who has the number of a descriptor from its open has seen the
    // close before, and so another count.
    let known = words[Int(descriptor)].load(ordering: .relaxed)
    if known & ~3 == closes << 2, let kind = Kind(rawValue: known & 3) { return kind }
    let kind = Self.look(at: descriptor)
    words[Int(descriptor)].store(closes << 2 | kind.rawValue, ordering: .relaxed)
    return kind
  }

  private static func look(at descriptor: Int32) -> Kind {
    let kind = opp_file_kind(descriptor)
    let isOnDevice =
      kind >= 0 && kind & (OPP_FILE_SERVED | OPP_FILE_ON_NO_DEVICE) == 0
      && [S_IFREG, S_IFBLK].contains(mode_t(kind & 0xffff) & S_IFMT)
    guard isOnDevice else { return .other }
    return opp_file_is_direct(descriptor) ? .direct : .cached
  }
}
