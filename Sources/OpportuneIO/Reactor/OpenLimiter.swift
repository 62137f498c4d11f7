/// Limits how many blocking opens run at once. The open of a FIFO waits for its other end, that of a terminal
/// for its line; each occupies a thread of the kernel or of the pool meanwhile. Further such opens wait here,
/// so they delay only each other.
///
/// Invariants:
///  - At most ``limit`` opens of each class have a thread.
///  - An open is in at most one place: in `waiting`, in `woken` (on its way to a thread, through the
///    scheduler's queue), or on a thread.
///  - While a thread of a class is free and an open of that class may go, one is woken, or `mayWake` is set.
///
/// Reactor's thread only.
final class OpenLimiter {
  /// How many opens of each class may have a thread.
  static let limit = 8

  private var taken = [0, 0]
  private var waiting: [Request] = []
  private var woken: [Request] = []
  /// Whether a thread has become free, or an open or its app has changed, since opens were last woken.
  private(set) var mayWake = false
  /// The number of opens without callers on threads of the pool. They may stay there for ever.
  private(set) var lost = 0
  /// Whether there are such: the kernel's threads come back when they are told to.
  let mayLose: Bool

  init(mayLose: Bool = false) { self.mayLose = mayLose }

  /// Takes a thread for the open, if one is free.
  func take(for request: Request, as ioClass: IOClass) -> Bool {
    remove(request, from: &woken)
    guard taken[ioClass.index] < Self.limit else { return false }
    taken[ioClass.index] += 1
    return true
  }

  func giveBack(_ ioClass: IOClass) {
    assert(taken[ioClass.index] > 0)
    taken[ioClass.index] -= 1
    mayWake = true
  }

  /// Adds an open that got no thread.
  func wait(_ request: Request) {
    assert(!waiting.contains { $0 === request })
    waiting.append(request)
  }

  /// The open has ended: removes it. If it was woken, another may be woken in its place.
  func forget(_ request: Request) {
    guard !waiting.isEmpty || !woken.isEmpty else { return }
    remove(request, from: &waiting)
    if remove(request, from: &woken) { mayWake = true }
  }

  /// An app's state has changed, and with it the class of its opens.
  func appChanged() { if !waiting.isEmpty || !woken.isEmpty { mayWake = true } }

  /// Removes the waiting opens of an app.
  func removeAll(of app: AppEntry) -> [Request] {
    let own = waiting.filter { $0.app === app }
    if !own.isEmpty { waiting.removeAll { $0.app === app } }
    return own
  }

  /// Wakes as many opens as there are free threads, the oldest first; the caller queues them.
  ///
  /// - Parameter classOf: the class in which the scheduler would grant an open; nil where it would not, as
  ///   for a suspended app.
  func wake(classOf: (Request) -> IOClass?) -> [Request] {
    guard mayWake else { return [] }
    mayWake = false
    guard !waiting.isEmpty else { return [] }
    var chosen: [Request] = []
    for ioClass in IOClass.allCases {
      let free = Self.limit - taken[ioClass.index] - woken.count { classOf($0) == ioClass }
      guard free > 0 else { continue }
      let own = waiting.filter { classOf($0) == ioClass }.sorted { $0.ticketNumber < $1.ticketNumber }
      chosen.append(contentsOf: own.prefix(free))
    }
    for request in chosen { remove(request, from: &waiting) }
    woken.append(contentsOf: chosen)
    return chosen
  }

  /// Counts an open whose caller has its answer, and which stays on its thread.
  func becameLost() { lost += 1 }

  func lostEnded() {
    assert(lost > 0)
    lost -= 1
  }

  @discardableResult private func remove(_ request: Request, from list: inout [Request]) -> Bool {
    guard let index = list.firstIndex(where: { $0 === request }) else { return false }
    list.remove(at: index)
    return true
  }
}
