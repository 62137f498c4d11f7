/// The apps of the reactor, by slot.
///
/// Invariants: a slot has at most one app. The numbers of apps increase, and none is used twice. Reactor's
/// thread only.
final class AppTable {
  private var slots: [AppEntry?] = []
  private var lastNumber: UInt64 = 0

  /// All apps, in the order of their slots.
  var all: [AppEntry] { slots.compactMap(\.self) }

  func add(_ app: AppEntry) {
    while slots.count <= app.slot { slots.append(nil) }
    assert(slots[app.slot] == nil)
    lastNumber += 1
    app.toAdded(as: lastNumber)
    slots[app.slot] = app
  }

  func contains(_ app: AppEntry) -> Bool { slots.indices.contains(app.slot) && slots[app.slot] === app }

  func remove(_ app: AppEntry) { if contains(app) { slots[app.slot] = nil } }

  /// A close of the descriptor begins: removes it from all apps and watches.
  func drop(_ descriptor: Int32) {
    for case let app? in slots {
      app.descriptors.remove(descriptor)
      for watch in app.watches { watch.drop(descriptor) }
    }
  }
}
