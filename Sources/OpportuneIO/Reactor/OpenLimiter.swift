/// Bounds how many opens wait for others at once. An open of a FIFO waits for its other end, one of a
/// terminal for its line: each takes a thread of the kernel's or of the pool's meanwhile. What more there are
/// wait here for those, not others for them.
///
/// Invariants:
///  - of each class at most ``limit`` opens have a thread;
///  - an open is in at most one place: `waiting`, `woken` (on its way to a thread, through the scheduler's
///    queue), or it has a thread;
///  - while a thread of a class is free and an open of that class may go, one is woken, or `mayWake` is set.
///
/// The reactor's alone.
final class OpenLimiter {
  /// Of each class, at once.
  static let limit = 8

  private var taken = [0, 0]
  private var waiting: [Request] = []
  private var woken: [Request] = []
  /// A thread is free, or an open or its app has changed, since opens were last woken.
  private(set) var mayWake = false
  /// Opens without callers on threads of the pool's, which may stay there for ever.
  private(set) var lost = 0

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

  /// Keeps an open that got no thread.
  func wait(_ request: Request) {
    assert(!waiting.contains { $0 === request })
    waiting.append(request)
  }

  /// The open has ended: it does not wait any more, and if it was woken another may be.
  func forget(_ request: Request) {
    guard !waiting.isEmpty || !woken.isEmpty else { return }
    remove(request, from: &waiting)
    if remove(request, from: &woken) { mayWake = true }
  }

  /// An app's state changed, and with that the class of its opens.
  func appChanged() { if !waiting.isEmpty || !woken.isEmpty { mayWake = true } }

  /// Takes out those that wait and belong to an app.
  func removeAll(of app: AppEntry) -> [Request] {
    let own = waiting.filter { $0.app === app }
    if !own.isEmpty { waiting.removeAll { $0.app === app } }
    return own
  }

  /// Wakes as many as there are free threads, the oldest first; the caller queues them.
  ///
  /// - Parameter classOf: the class in which the scheduler would grant an open; nil where it would not, as of
  ///   a suspended app.
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

  /// Nobody waits for the open any more, and it stays on its thread.
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
