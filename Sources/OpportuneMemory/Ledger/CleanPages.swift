import Glibc
internal import OpportuneBase
import Synchronization

/// The mapped files of all apps: pages that may go at any time, since who reads them next has the kernel load
/// them again.
///
/// Lock-free: a stack of places that only grows, each used again once its file is unmapped. A file that is
/// unmapped while somebody drops its pages is unmapped by whoever ends last.
final class CleanPages: @unchecked Sendable {
  final class Place: Linked, @unchecked Sendable {
    fileprivate static let isLive: UInt8 = 1
    fileprivate static let isDropping: UInt8 = 2
    fileprivate static let isClaimed: UInt8 = 4

    fileprivate let state = Atomic<UInt8>(isClaimed)
    // Set by who has claimed the place, and read by who drops its pages; the state orders the two.
    fileprivate var bytes = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    fileprivate var owner: AppMemoryRecord?
    // Set before it is published.
    var below: UInt = 0

    fileprivate init() {}

    /// The mapping goes: now, or as soon as who drops its pages has done so.
    func unmap(_ bytes: UnsafeMutableRawBufferPointer) {
      // Acquiring and releasing: dropping is over before the unmapping, and the fields are the next
      // claimer's.
      let before = state.bitwiseAnd(~Self.isLive, ordering: .acquiringAndReleasing).oldValue
      if before & Self.isDropping == 0 { munmap(bytes.baseAddress, bytes.count) }
    }

    /// Whether they were somebody's who is `wanted`, and went.
    fileprivate func drop(_ isWanted: (AppMemoryRecord) -> Bool) -> Bool {
      // Acquiring: the fields (releasing in fill). Nobody else drops at the same time, or unmaps.
      let (isMine, _) = state.compareExchange(
        expected: Self.isLive, desired: Self.isLive | Self.isDropping, successOrdering: .acquiring,
        failureOrdering: .relaxed)
      guard isMine else { return false }
      let (bytes, owner) = (bytes, owner)
      var went = false
      if let owner, isWanted(owner) {
        // The first takes them out of main memory, where nobody else maps them, and is refused where the
        // program may not write the file or the kernel is old; the second takes them from the program.
        madvise(bytes.baseAddress, bytes.count, madvisePageOut)
        went = madvise(bytes.baseAddress, bytes.count, MADV_DONTNEED) == 0
      }
      // As in unmap.
      let before = state.bitwiseAnd(~Self.isDropping, ordering: .acquiringAndReleasing).oldValue
      if before & Self.isLive == 0 { munmap(bytes.baseAddress, bytes.count) }
      return went
    }

    fileprivate func fill(_ bytes: UnsafeMutableRawBufferPointer, _ owner: AppMemoryRecord) {
      (self.bytes, self.owner) = (bytes, owner)
      // Releasing: the fields, to who drops.
      state.store(Self.isLive, ordering: .releasing)
    }

    /// Acquiring: whoever had it before has done with it.
    fileprivate func claim() -> Bool {
      state.compareExchange(
        expected: 0, desired: Self.isClaimed, successOrdering: .acquiring, failureOrdering: .relaxed
      ).exchanged
    }
  }

  private let places = LinkedStack<Place>()

  /// A file was mapped. Any thread.
  func add(_ bytes: UnsafeMutableRawBufferPointer, of owner: AppMemoryRecord) -> Place {
    if let place = places.first(where: { $0.claim() }) {
      place.fill(bytes, owner)
      return place
    }
    let place = Place()
    place.fill(bytes, owner)
    places.push(place)
    return place
  }

  /// Drops the pages of the apps that are wanted. Any thread. Returns whether there were any files of theirs.
  @discardableResult
  func drop(_ isWanted: (AppMemoryRecord) -> Bool) -> Bool {
    var went = false
    places.visit { if $0.drop(isWanted) { went = true } }
    return went
  }
}

// Which Glibc's headers in Swift do not all have.
let madvisePageOut: Int32 = 21
/// From Linux 5.18 on.
let madviseDropLocked: Int32 = 24
