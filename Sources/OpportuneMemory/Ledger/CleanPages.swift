import Glibc
internal import OpportuneBase
import Synchronization

/// The mapped files of all apps. Their pages may be dropped at any time, since the kernel loads them again at
/// the next access.
///
/// Lock-free: a stack of entries that only grows; an entry is reused once its file is unmapped. If a file is
/// to be unmapped while a thread drops its pages, the later of the two unmaps it.
final class CleanPages: @unchecked Sendable {
  final class Place: Linked, @unchecked Sendable {
    fileprivate static let isLive: UInt8 = 1
    fileprivate static let isDropping: UInt8 = 2
    fileprivate static let isClaimed: UInt8 = 4

    fileprivate let state = Atomic<UInt8>(isClaimed)
    // Written by the thread that has claimed the entry, read by the thread that drops its pages. `state`
    // orders the two.
    fileprivate var bytes = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    fileprivate var owner: AppMemoryRecord?
    // Written before the entry is published.
    var below: UInt = 0

    fileprivate init() {}

    /// Unmaps the file: now, or when the thread that drops its pages has finished.
    func unmap(_ bytes: UnsafeMutableRawBufferPointer) {
      // Acquiring and releasing: dropping happens before the unmapping, and the next thread to claim the
      // entry may write its fields.
      let before = state.bitwiseAnd(~Self.isLive, ordering: .acquiringAndReleasing).oldValue
      if before & Self.isDropping == 0 { munmap(bytes.baseAddress, bytes.count) }
    }

    /// Drops the pages if their owner is `wanted`. Returns whether it did.
    fileprivate func drop(_ isWanted: (AppMemoryRecord) -> Bool) -> Bool {
      // Acquiring: pairs with the releasing store in fill(), for the fields. No other thread drops or unmaps
      // meanwhile.
      let (isMine, _) = state.compareExchange(
        expected: Self.isLive, desired: Self.isLive | Self.isDropping, successOrdering: .acquiring,
        failureOrdering: .relaxed)
      guard isMine else { return false }
      let (bytes, owner) = (bytes, owner)
      var went = false
      if let owner, isWanted(owner) {
        // The first call takes the pages out of main memory, if no other process maps them. It fails where
        // the program may not write the file or the kernel is old. The second removes the pages from this
        // process.
        madvise(bytes.baseAddress, bytes.count, madvisePageOut)
        went = madvise(bytes.baseAddress, bytes.count, MADV_DONTNEED) == 0
      }
      // Acquiring and releasing: as in unmap().
      let before = state.bitwiseAnd(~Self.isDropping, ordering: .acquiringAndReleasing).oldValue
      if before & Self.isLive == 0 { munmap(bytes.baseAddress, bytes.count) }
      return went
    }

    fileprivate func fill(_ bytes: UnsafeMutableRawBufferPointer, _ owner: AppMemoryRecord) {
      (self.bytes, self.owner) = (bytes, owner)
      // Releasing: publishes the fields to drop().
      state.store(Self.isLive, ordering: .releasing)
    }

    /// Acquiring: the previous user of the entry has finished.
    fileprivate func claim() -> Bool {
      state.compareExchange(
        expected: 0, desired: Self.isClaimed, successOrdering: .acquiring, failureOrdering: .relaxed
      ).exchanged
    }
  }

  private let places = LinkedStack<Place>()

  /// Adds a mapped file. Any thread.
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

  /// Drops the pages of the wanted apps. Any thread. Returns whether there were any such files.
  @discardableResult
  func drop(_ isWanted: (AppMemoryRecord) -> Bool) -> Bool {
    var went = false
    places.visit { if $0.drop(isWanted) { went = true } }
    return went
  }
}

// Constants that Glibc's headers in Swift lack in part.
let madvisePageOut: Int32 = 21
/// `MADV_DONTNEED_LOCKED`, from Linux 5.18 on.
let madviseDropLocked: Int32 = 24
