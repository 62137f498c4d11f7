internal import COpportune
internal import OpportuneBase
import Synchronization

/// The mechanism of an ``OpportuneLock``, without the value.
///
/// No thread blocks here. A task that finds the lock held pushes itself onto `arrivals`. When the holder
/// leaves, it sorts the arrivals and hands the lock to one of them without releasing it. No wake-up is lost:
/// after its push a task checks whether the lock is held, and after its release a holder checks `arrivals`.
/// One of the two sees the other, and hands the lock on.
final class LockCore: @unchecked Sendable {
  let engine: Engine
  let name: String
  private let ceiling: AppCore?
  private let isHeld = Atomic<Bool>(false)
  private let arrivals = LinkedStack<LockWaiter>()
  /// The waiters, oldest first. Guarded by the lock itself.
  private var queue: [LockWaiter] = []
  /// The critical section of the holder.
  private let holder = Published<LockSection?>(nil)

  init(_ engine: Engine, name: String, ceiling: Band?) throws(SchedulerError) {
    self.engine = engine
    self.name = name
    if let ceiling, ceiling > .background {
      try engine.requirePool(for: ceiling)
      self.ceiling = try AppCore(engine: engine, name: name, band: ceiling)
    } else {
      self.ceiling = nil
    }
  }

  func makeSection() -> LockSection {
    let (tree, plain) = TaskTree.ofCurrentTask(of: engine)
    let app = tree?.app ?? plain
    let home = if let ceiling, ceiling.band > app?.band ?? .background { ceiling } else { app }
    let section = LockSection(in: home, of: tree)
    section.beginWant(of: self)
    return section
  }

  // MARK: Taking it

  /// - Throws: `CancellationError` where the task is cancelled before it has the lock.
  func acquire(_ section: LockSection) async throws {
    if tryHold() { return publish(section) }
    let waiter = LockWaiter(section, engine)
    arrivals.push(waiter)
    // seqCst, both: see the type.
    if tryHold() { handOn() }
    for donor in waiter.donors {
      var seen: [ObjectIdentifier] = []  // a walk of its own: another donor stands elsewhere
      donate(donor, &seen)
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { waiter.begin($0) }
    } onCancel: {
      waiter.end(as: .cancelled)
    }
    guard waiter.hasLock else { throw CancellationError() }
  }

  // acquiring: sees what the last holder did. Pairs with handOn().
  private func tryHold() -> Bool { !isHeld.exchange(true, ordering: .sequentiallyConsistent) }

  /// Called by the holder as it leaves.
  func release() { handOn() }

  /// Hands the lock, which the caller holds, to the next waiter, or releases it.
  private func handOn() {
    repeat {
      queue += arrivals.takeAll().reversed()
      while let next = takeNext() {
        publish(next.section)
        if next.end(as: .granted) { return }
      }
      holder.publish(nil)
      // seqCst: see the type. releasing: the next holder sees what this one did.
      isHeld.store(false, ordering: .sequentiallyConsistent)
    } while !arrivals.isEmpty && tryHold()
  }

  /// Called before the section runs. Later waiters find the section by themselves; the earlier ones are
  /// looked up here.
  private func publish(_ section: LockSection) {
    holder.publish(section)
    // seqCst, in both: a waiter pushes itself, and then looks for the section.
    arrivals.visit { $0.donate(to: section, engine) }  // only who holds the lock takes them
    for waiter in queue { waiter.donate(to: section, engine) }
  }

  /// The number of arrivals that were not sorted yet. For tests, which know that the lock is held.
  var waiterCount: Int {
    var count = 0
    arrivals.visit { _ in count += 1 }
    return count
  }

  /// The oldest waiter of the highest band. A waiter of a suspended app would hold the lock until the app is
  /// resumed, so it comes last.
  private func takeNext() -> LockWaiter? {
    queue.removeAll(where: \.isOver)
    let ranks = queue.map { $0.section.isSuspended ? -1 : Int($0.band.rawValue) }
    guard let highest = ranks.max(), let index = ranks.firstIndex(of: highest) else { return nil }
    return queue.remove(at: index)
  }

  // MARK: Donation

  /// Work of `donor` waits for this lock, so the holder inherits the band of `donor`. If the holder waits for
  /// another lock, the holder of that one inherits it too, and so on.
  ///
  /// - Parameter seen: the sections visited so far. It ends the walk where sections wait in a circle.
  func donate(_ donor: AppCore, _ seen: inout [ObjectIdentifier]) {
    guard let section = holder.value, !seen.contains(ObjectIdentifier(section)) else { return }
    seen.append(ObjectIdentifier(section))
    // First the donation, then the look at what the section waits for. A section that begins to wait does the
    // reverse: it publishes the wait, and then passes on the donors that it has. So no donor is missed.
    section.donate(donor, engine)
    section.forEachWant { want in
      want.section.donate(donor, engine)
      want.lock.donate(donor, &seen)
    }
  }
}

/// One critical section, begun or waiting to.
final class LockSection: Sendable {
  /// The section that the current task runs in. Child tasks have it as well, so what those wait for may
  /// inherit more than it has to.
  @TaskLocal static var current: LockSection?

  /// Where its jobs are queued; nil if the caller belongs to no app.
  private let tree: TaskTree?
  /// The apps that wait for it, each once; twice if two of an app's threads came at the same time.
  private let donors = LinkedStack<LockDonor>()
  /// The sections that began inside this one.
  private let wants = LinkedStack<LockWant>()
  /// Its entry in `wants` of the section that it began in. Accessed by its own task only.
  nonisolated(unsafe) private var want: LockWant?

  let listeners = LinkedStack<DonationNode>()

  init(in app: AppCore?, of outer: TaskTree?) {
    tree = app.map { TaskTree($0, priority: Task.currentPriority, inside: outer) }
  }

  var isSuspended: Bool { tree?.app.state.suspended ?? false }

  func run<Result>(_ body: () async throws -> Result) async throws -> Result {
    guard let tree else { return try await body() }
    return try await withTaskExecutorPreference(tree) { try await body() }
  }

  func donate(_ donor: AppCore, _ engine: Engine) {
    var isKnown = false
    donors.visit { if $0.app === donor { isKnown = true } }
    // seqCst, as each push is: before the look at `wants`.
    if !isKnown { donors.push(LockDonor(donor)) }
    listeners.tell()
    guard let tree, tree.app.band < donor.band, let producer = engine.producer(Worker.current(of: engine))
    else { return }
    // Queued jobs are queued there too; a running job is raised where that is allowed.
    if tree.donate(to: donor, producer), tree.identity != 0 {
      engine.monitor.post(.raise(tree.identity, donor.band))
    }
  }

  func forEachDonor(_ body: (AppCore) -> Void) { donors.visit { body($0.app) } }

  /// Those who wait for the task that the section belongs to, while they stand higher than its app.
  func forEachDonorOfTask(_ body: (AppCore) -> Void) { tree?.outer?.forEachDonor(body) }

  func forEachWant(_ body: (LockWant) -> Void) {
    wants.visit { if !$0.isOver.load(ordering: .relaxed) { body($0) } }
  }

  /// Begins the section. If it begins inside of another, those that wait for the other wait for this one.
  func beginWant(of lock: LockCore) {
    guard let outer = LockSection.current else { return }
    let want = LockWant(lock, self)
    self.want = want
    // seqCst: before the look at the donors; see LockCore.donate().
    outer.wants.push(want)
    outer.forEachDonor { donate($0, lock.engine) }
  }

  func end() {
    want?.isOver.store(true, ordering: .relaxed)
    want = nil  // the two hold each other
  }
}

/// An app whose work waits for a section.
final class LockDonor: Linked, Sendable {
  let app: AppCore
  // Set before it is published.
  nonisolated(unsafe) var below: UInt = 0

  init(_ app: AppCore) { self.app = app }
}

/// A section that began inside of another. It waits for its lock, or has it.
final class LockWant: Linked, Sendable {
  let lock: LockCore
  let section: LockSection
  // relaxed: a thread that misses the end donates without need; nothing else depends on it.
  let isOver = Atomic<Bool>(false)
  // Set before it is published.
  nonisolated(unsafe) var below: UInt = 0

  init(_ lock: LockCore, _ section: LockSection) { (self.lock, self.section) = (lock, section) }
}

/// A task that waits for a lock. The wait ends once: the lock is granted, or the task is cancelled.
final class LockWaiter: Linked, @unchecked Sendable {
  enum State: UInt8, AtomicRepresentable { case new, waiting, granted, cancelled }

  let section: LockSection
  /// The section that the task waits in, if any.
  private let outer = LockSection.current
  /// The app that runs the task.
  private let app: AppCore?
  private let state = Atomic<State>(.new)
  // Written before `waiting` is published; taken by the thread that ends that state.
  private var continuation: CheckedContinuation<Void, Never>?
  // The stack's.
  var below: UInt = 0

  init(_ section: LockSection, _ engine: Engine) {
    self.section = section
    app = Worker.current(of: engine)?.app
  }

  var band: Band {
    var band = app?.band ?? .foreground
    section.forEachDonorOfTask { band = max(band, $0.band) }
    outer?.forEachDonor { band = max(band, $0.band) }
    return band
  }

  /// The donors of this wait: the task's app, and those that wait for the section that the task is in.
  var donors: [AppCore] {
    var donors = app.map { [$0] } ?? []
    // A worker of the task's own app may have been faster than those of the apps that wait for it.
    section.forEachDonorOfTask { donors.append($0) }
    outer?.forEachDonor { donors.append($0) }
    return donors
  }

  func donate(to section: LockSection, _ engine: Engine) {
    if !isOver { for donor in donors { section.donate(donor, engine) } }
  }

  var isOver: Bool { [.granted, .cancelled].contains(state.load(ordering: .relaxed)) }

  // acquiring: sees what the last holder did. Pairs with end().
  var hasLock: Bool { state.load(ordering: .acquiring) == .granted }

  func begin(_ continuation: CheckedContinuation<Void, Never>) {
    self.continuation = continuation
    // releasing: publishes the continuation to end().
    let (exchanged, _) = state.compareExchange(
      expected: .new, desired: .waiting, ordering: .acquiringAndReleasing)
    if exchanged { return }
    self.continuation = nil
    continuation.resume()  // it has ended already
  }

  /// Returns false if the wait has ended already.
  @discardableResult func end(as final: State) -> Bool {
    var seen = State.new
    repeat {
      // acquiring: pairs with begin(). releasing: with hasLock.
      let (exchanged, original) = state.compareExchange(
        expected: seen, desired: final, ordering: .acquiringAndReleasing)
      if exchanged {
        let continuation = seen == .waiting ? continuation.take() : nil
        continuation?.resume()
        return true
      }
      seen = original
    } while seen == .waiting
    return false
  }
}
