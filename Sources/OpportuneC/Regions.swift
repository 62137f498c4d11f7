// The names are those of C.
// swift-format-ignore-file: AlwaysUseLowerCamelCase

#if compiler(>=6.3)
  public import COpportuneC
  internal import Glibc
  internal import OpportuneMemory
  internal import OpportuneScheduler
  internal import Synchronization

  /// Runs `body`, and says by an error number what a memory broker refuses.
  func refusing<Result>(_ body: () throws(MemoryError) -> Result) throws -> Result {
    do {
      return try body()
    } catch {
      let number: CInt = if case .system(let number) = error.code { number } else { EINVAL }
      throw Refusal(number, error.message)
    }
  }

  /// The memory of an app, which stands as its app does.
  final class CMemory: AppObserver {
    let memory: AppMemory
    private let app: App
    private let changes = Atomic<Int>(0)

    init(_ memory: AppMemory, _ app: App) {
      self.memory = memory
      self.app = app
    }

    func appDidChange() {
      // One thread at a time reads the state and tells it; who comes meanwhile has it read the state again.
      // acquiringAndReleasing: the state that was changed before is read after.
      guard changes.add(1, ordering: .acquiringAndReleasing).oldValue == 0 else { return }
      var seen = 1
      repeat {
        memory.setStanding(standing)
        let (over, now) = changes.compareExchange(
          expected: seen, desired: 0, ordering: .acquiringAndReleasing)
        if over { return }
        seen = now
      } while true
    }

    private var standing: AppStanding {
      if app.activity != .active { return .suspended }
      return app.band == .background ? .background : .active
    }
  }

  final class CRegion: Handled, Sendable {
    static let kind: UInt8 = 5
    static let label = "a region"

    let region: Purgeable<UInt8>

    init(_ region: Purgeable<UInt8>) { self.region = region }
  }

  @c @implementation
  public func opportune_region_create(
    _ app: OpaquePointer?, _ count: Int, _ region: UnsafeMutablePointer<OpaquePointer?>?
  ) -> CInt {
    create(region, "region") {
      let own = try CApp.at(app)
      try own.checkIsAlive()
      let memory = try own.makeMemory()
      let made = try refusing { () throws(MemoryError) in
        try memory.memory.purgeable(of: UInt8.self, count: count)
      }
      return CRegion(made)
    }
  }

  @c @implementation
  public func opportune_region_release(_ region: OpaquePointer?) -> CInt {
    call {
      try CRegion.release(region)
      return 0
    }
  }

  /// What the body of a use returned to have the content dropped.
  private struct Dropped: Error {
    let result: CInt
  }

  @c @implementation
  public func opportune_region_use(
    _ region: OpaquePointer?, _ body: opportune_region_body?, _ context: UnsafeMutableRawPointer?
  ) -> CInt {
    call {
      guard let body else { throw Refusal.invalid("body is NULL") }
      let own = try CRegion.at(region)
      do throws(Dropped) {
        return try own.region.withContents { (contents) throws(Dropped) -> CInt in
          let (buffer, isIntact): (UnsafeMutableBufferPointer<UInt8>, CInt) =
            switch contents {
            case .intact(let buffer): (buffer, 1)
            case .purged(let buffer): (buffer, 0)
            }
          let result = body(context, buffer.baseAddress, buffer.count, isIntact)
          if result < 0 { throw Dropped(result: result) }
          return result
        }
      } catch {
        return error.result
      }
    }
  }

  @c @implementation
  public func opportune_region_is_purged(_ region: OpaquePointer?) -> CInt {
    call { try CRegion.with(region) { $0.region.isPurged ? 1 : 0 } }
  }

  @c @implementation
  public func opportune_app_purge(_ app: OpaquePointer?) -> Int64 {
    call {
      try CApp.with(app) { own in
        guard let memory = own.memory else { return 0 }
        return Int64(clamping: memory.memory.purge())
      }
    }
  }
#endif
