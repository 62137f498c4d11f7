internal import COpportune
import Glibc

/// A purgeable region of an app in the C core. It is closed with its last reference; a pin holds one.
///
/// All members may be used from any thread; none blocks. A class to inherit from, so that who keeps more of a
/// region, as a cache does of its entries, keeps it in one object.
@usableFromInline
class PurgeableRegion: @unchecked Sendable {
  // The C object is thread-safe.
  private let raw: OpaquePointer
  /// Retains the set that contains the region.
  private let app: AppMemory
  /// The size in bytes, in whole pages.
  @usableFromInline let bytes: Int

  /// The result of a pin, with its memory.
  @usableFromInline
  struct Pin {
    @usableFromInline
    enum Found { case intact, empty, busy }
    @usableFromInline let found: Found
    /// For `busy`, memory that is private to this pin.
    @usableFromInline let memory: UnsafeMutableRawPointer

    @usableFromInline
    init(_ found: Found, _ memory: UnsafeMutableRawPointer) {
      self.found = found
      self.memory = memory
    }
  }

  @usableFromInline
  init(_ app: AppMemory, bytes: Int, group: UInt32) throws(MemoryError) {
    app.broker.makeRoom(for: bytes)
    var opened: OpaquePointer?
    let result = opp_purge_open(app.broker.set, bytes, app.record.number, group, &opened)
    guard result == 0, let raw = opened else {
      if result == -EINVAL { throw .range("a purgeable region", "\(bytes) bytes", "1 to 2^46") }
      throw .refused("no purgeable region of \(bytes) bytes", -result)
    }
    self.raw = raw
    self.app = app
    self.bytes = Self.size(of: bytes)
    app.broker.add(UInt64(self.bytes))
  }

  /// The whole pages of so many bytes, in bytes.
  @usableFromInline
  static func size(of bytes: Int) -> Int { (bytes + pageSize - 1) / pageSize * pageSize }

  deinit {
    opp_purge_close(raw)
    app.broker.subtract(UInt64(bytes))
  }

  @usableFromInline
  final func pin() -> Pin {
    var memory: UnsafeMutableRawPointer?
    let access = opp_purge_pin(raw, &memory)
    if let memory { return Pin(access == .OPP_PURGE_INTACT ? .intact : .empty, memory) }
    return pinBusy()
  }

  private final func pinBusy() -> Pin {
    app.broker.makeRoom(for: bytes)
    let own = UnsafeMutableRawPointer.allocate(byteCount: bytes, alignment: pageSize)
    own.initializeMemory(as: UInt8.self, repeating: 0, count: bytes)
    app.record.ownBuffers.add(UInt64(bytes), ordering: .relaxed)
    app.broker.add(UInt64(bytes))
    return Pin(.busy, own)
  }

  /// Ends a pin that found the content intact, or whose content was made or dropped.
  @usableFromInline
  final func unpin() { opp_purge_unpin(raw) }

  /// Ends a pin whose result was busy.
  @usableFromInline
  final func unpinBusy(_ pin: Pin) {
    pin.memory.deallocate()
    app.record.ownBuffers.subtract(UInt64(bytes), ordering: .relaxed)
    app.broker.subtract(UInt64(bytes))
    opp_purge_unpin(raw)
  }

  /// Ends a pin that found no content, and records whether the content exists now.
  @usableFromInline
  final func unpinEmpty(isFilled: Bool) {
    if isFilled { opp_purge_filled(raw) } else { opp_purge_emptied(raw) }
    opp_purge_unpin(raw)
  }

  /// Replaces the content, of which nobody else holds a pin.
  ///
  /// - Parameter contents: as large as the region at most.
  /// - Returns: false where somebody does hold one; nothing is replaced then.
  @usableFromInline
  final func replace(with contents: UnsafeRawBufferPointer) -> Bool {
    let pin = pin()
    switch pin.found {
    case .intact:
      defer { unpin() }
      copy(contents, to: pin.memory)
      opp_purge_renewed(raw)
    case .empty:
      makeRoom()
      copy(contents, to: pin.memory)
      unpinEmpty(isFilled: true)
    case .busy:
      unpinBusy(pin)
      return false
    }
    return true
  }

  private final func copy(_ contents: UnsafeRawBufferPointer, to memory: UnsafeMutableRawPointer) {
    UnsafeMutableRawBufferPointer(start: memory, count: bytes).copyMemory(from: contents)
  }

  /// Makes room before a pin fills the region again, as for a new region.
  @usableFromInline
  final func makeRoom() { app.broker.refill(UInt64(bytes)) }

  @usableFromInline
  final func setVolatile(_ isVolatile: Bool) { opp_purge_set_volatile(raw, isVolatile) }

  final func updateDrawing() { app.broker.updateDrawing(raw, view, of: app.record) }

  final var view: opp_purge_view {
    var view = opp_purge_view()
    _ = opp_purge_look(raw, &view)
    return view
  }

  /// Releases the pages, whether the region is volatile or not. Returns the bytes; 0 where it is in use or
  /// released already.
  final func revoke() -> Int {
    var seen = view
    return max(0, Int(opp_purge_revoke(raw, &seen)))
  }

  /// Takes the region. Returns the bytes released; 0 where it is in use.
  final func take(_ mode: PurgeMode) throws(MemoryError) -> Int {
    var seen = view
    let result = opp_purge_take(raw, &seen, mode.raw)
    guard result >= 0 else { throw .refused("\(bytes) bytes were not given back", Int32(-result)) }
    return Int(result)
  }
}

/// The kernel's page size, in bytes.
let pageSize = Int(sysconf(Int32(_SC_PAGESIZE)))

extension PurgeMode {
  var raw: opp_purge_mode { self == .eager ? .OPP_PURGE_EAGER : .OPP_PURGE_LAZY }
}
