import OpportuneApps
import OpportuneMemory
import OpportuneScheduler
import Synchronization

/// What is known of an app's memory, and where its state is.
///
/// `@unchecked Sendable`: touched on the host's strand alone.
final class KeptApp: @unchecked Sendable {
  fileprivate enum Phase {
    case inMemory
    case handing(ticket: UInt64, Task<HandedState, any Error>)
    /// Handed over, and not yet released: until then all memory is still there.
    case saving(ticket: UInt64, HandedState, Absence)
    case stored(Stored)
    /// Being restored. It may have been hibernated once more meanwhile.
    case restoring(ticket: UInt64, Task<Bool, Never>, savesAfterwards: Bool)
  }

  fileprivate struct Stored: Sendable {
    let name: String
    let record: StoredRecord
    let memory: [HeldMemory]
    /// The bytes that it has reported as held outside.
    var outside: UInt64 = 0
  }

  let id: AppID
  let memory: AppMemory
  /// The image for the switcher.
  var image: KeptImage?
  var delegate: (any AppDelegate)?
  fileprivate var phase = Phase.inMemory
  var hibernatesWhenSuspended = false
  /// Whether its last removal was optional: memory was not short.
  var isOptional = false
  /// Whether it was told in this suspension why it is not hibernated although it is idle.
  var isSpared = false
  /// It counts as hibernated, but the store could not save it: it still has all its memory, and is removed
  /// when memory is short.
  var stays = false

  init(_ id: AppID, _ memory: AppMemory) {
    self.id = id
    self.memory = memory
  }
}

/// The time in which an app does not use what it handed over, so that the store may read it.
///
/// The app does not wait when it takes its memory back. The store may just be reading it; what it has read
/// since then is discarded.
final class Absence: Sendable {
  private let isOver = Atomic<Bool>(false)

  /// Called before the app gets anything back.
  func end() {
    // Acquiring: pairs with `lasts`. Both are read-modify-writes of one word, so one comes first. If this one
    // is later, everything that was read before `lasts` was read before the app's next write.
    _ = isOver.exchange(true, ordering: .acquiring)
  }

  /// Whether everything that was read until now was read during the absence.
  var lasts: Bool {
    // Releasing: pairs with end(). It rewrites the current value, since a plain load might read an earlier
    // one.
    !isOver.logicalOr(false, ordering: .releasing).newValue
  }
}

/// To the store and back. (R-MEM-05, R-MEM-07)
///
/// Each step that takes time is a task, which comes back to the host's strand with the ticket of its phase:
/// where the app is in another phase by then, nobody waits for the outcome any more.
///
/// `@unchecked Sendable`: touched on the host's strand alone.
final class Hibernation: @unchecked Sendable {
  private let keeper: StoreKeeper?
  private let calls: TimedCalls
  private let foreground: App
  private let background: App
  private let relay: Relay
  private let report: @Sendable (MemoryEvent) -> Void
  /// For tests, which cannot wait for that of the host.
  var ownCallLimit: Duration?
  private var tickets: UInt64 = 0

  /// - Parameters:
  ///   - keeper: nil: there is no store.
  ///   - foreground: where apps are called, and their states are read.
  ///   - background: where states are written.
  init(
    _ keeper: StoreKeeper?, _ calls: TimedCalls, foreground: App, background: App, _ relay: Relay,
    _ report: @escaping @Sendable (MemoryEvent) -> Void
  ) {
    self.keeper = keeper
    self.calls = calls
    self.foreground = foreground
    self.background = background
    self.relay = relay
    self.report = report
  }

  /// What an earlier run of the program left is of apps that do not run any more.
  func clear() async throws { try await keeper?.clear() }

  func canHibernate(_ app: KeptApp) -> Bool { keeper != nil && app.delegate is any HibernatingApp }

  /// The app has ended: what is being saved or restored finds that it is not wanted any more.
  func drop(_ app: KeptApp) {
    switch app.phase {
    case .stored(let stored): forget(stored.name)
    case .saving(_, _, let absence): absence.end()
    case .inMemory, .handing, .restoring: break
    }
    app.phase = .inMemory
  }

  /// After the effects that are being carried out.
  private func later(_ body: @escaping @Sendable (Hibernation, isolated AppHost) -> Void) {
    Task(executorPreference: foreground.executor) { [relay] in
      guard let (host, memory) = relay.ends else { return }
      await body(memory.hibernation, host)
    }
  }

  func save(_ app: KeptApp) {
    // What can be made again is not written. The image of an app that is away is all that there is to see of
    // it.
    app.image?.isVolatile = false
    app.memory.purge()
    app.image?.isVolatile = true
    switch app.phase {
    case .handing, .saving, .stored: return
    case .restoring(let ticket, let task, _):
      app.phase = .restoring(ticket: ticket, task, savesAfterwards: true)
      return
    case .inMemory: break
    }
    guard keeper != nil, let delegate = app.delegate as? any HibernatingApp else {
      let why = whyNotHibernated(app)
      return later { $0.notSaved(app, nil, why, on: $1) }
    }
    tickets += 1
    let (ticket, limit) = (tickets, callLimit)
    let call = Task(executorPreference: foreground.executor) { [calls] in
      try await calls.answer(within: limit, priority: .utility) { try delegate.handOver() }
    }
    app.phase = .handing(ticket: ticket, call)
    Task(executorPreference: foreground.executor) { [relay] in
      let result = await call.result
      guard let (host, memory) = relay.ends else { return }
      await memory.hibernation.handed(app, ticket, result, on: host)
    }
  }

  /// Half of a callback's limit, so that a callback which waits for this does not exceed its own limit first.
  private var callLimit: Duration {
    ownCallLimit ?? (relay.ends?.0.policy ?? AppsPolicy()).callbackLimit / 2
  }

  private func handed(
    _ app: KeptApp, _ ticket: UInt64, _ result: Result<HandedState, any Error>, on host: isolated AppHost
  ) {
    guard let keeper, case .handing(ticket, _) = app.phase else { return }
    switch result {
    case .success(let state): write(state, of: app, keeper)
    case .failure(let error):
      // If it still hands over a state, that is dropped.
      if error is TimedCalls.Overrun { app.isOptional = false }
      notSaved(app, ticket, "\(error)", on: host)
    }
  }

  /// The store may have room by now.
  func saveAnew(_ app: KeptApp) {
    app.stays = false
    app.isOptional = false
    app.memory.setStanding(.gone)
    if case .saving(_, let state, _) = app.phase, let keeper { return write(state, of: app, keeper) }
    app.phase = .inMemory
    save(app)
  }

  private func write(_ state: HandedState, of app: KeptApp, _ keeper: StoreKeeper) {
    tickets += 1
    let (ticket, absence) = (tickets, Absence())
    app.phase = .saving(ticket: ticket, state, absence)
    let name = "\(app.id).\(ticket)"
    Task(executorPreference: background.executor, priority: .utility) { [relay] in
      do {
        let record = try await keeper.save(name, state, during: absence)
        guard let (host, memory) = relay.ends else { return }
        let stored = KeptApp.Stored(name: name, record: record, memory: state.memory)
        await memory.hibernation.saved(app, ticket, stored, on: host)
      } catch {
        guard let (host, memory) = relay.ends else { return }
        await memory.hibernation.notSaved(app, ticket, "\(error)", on: host)
      }
    }
  }

  func whyNotHibernated(_ app: KeptApp) -> String {
    keeper == nil ? "there is no store" : "it hands nothing over"
  }

  private func saved(_ app: KeptApp, _ ticket: UInt64, _ stored: KeptApp.Stored, on host: isolated AppHost) {
    guard case .saving(ticket, _, _) = app.phase else { return forget(stored.name) }
    for memory in stored.memory { memory.giveBack() }
    var stored = stored
    stored.outside = app.memory.letGoOutside()
    app.memory.finishReturning()
    app.phase = .stored(stored)
    report(.stored(app.id, name: app.memory.name, bytes: stored.record.bytes))
  }

  /// - Parameter ticket: `nil`: it did not hand over anything.
  private func notSaved(_ app: KeptApp, _ ticket: UInt64?, _ why: String, on host: isolated AppHost) {
    switch app.phase {
    case .handing(ticket ?? 0, _), .saving(ticket ?? 0, _, _): break
    case .inMemory where ticket == nil: break
    case .inMemory, .handing, .saving, .stored, .restoring: return
    }
    let isAway = host.state(of: app.id) == .hibernated
    if isAway, app.isOptional {
      // The phase stays as well: restoring finds in it what was handed over.
      app.stays = true
      app.memory.setStanding(.suspended)
      return report(.notStored(app.id, name: app.memory.name, why))
    }
    app.phase = .inMemory
    guard isAway else { return }
    report(.notStored(app.id, name: app.memory.name, why))
    try? host.post(.app(app.id, .terminate))
  }

  func restore(_ app: KeptApp) -> Task<Bool, Never>? {
    switch app.phase {
    case .inMemory: return nil
    case .handing(_, let call):
      return restore(app, nil) {
        switch await call.result {
        case .success(let state): return state
        case .failure(let error as TimedCalls.Overrun): throw error
        // It still has all its memory.
        case .failure: return nil
        }
      }
    // Nothing was released, so there is no wait for the disk.
    case .saving(_, let state, let absence):
      absence.end()
      return restore(app, nil) { state }
    case .restoring(let ticket, let task, _):
      app.phase = .restoring(ticket: ticket, task, savesAfterwards: false)
      return task
    case .stored(let stored):
      if stored.outside > 0 { try? app.memory.setOutside(bytes: stored.outside) }
      return restore(app, stored.name) { HandedState(try stored.bringBack(), memory: stored.memory) }
    }
  }

  /// - Parameter fetch: reads the handed-over state; `nil` if there is none.
  private func restore(
    _ app: KeptApp, _ name: String?,
    _ fetch: @escaping @Sendable () async throws -> HandedState?
  ) -> Task<Bool, Never> {
    guard let delegate = app.delegate as? any HibernatingApp else { return Task { false } }
    tickets += 1
    let (ticket, limit) = (tickets, callLimit)
    let task = Task(executorPreference: foreground.executor, priority: .high) { [relay, calls] in
      let result: Result<Bool, any Error>
      do {
        let state = try await fetch()
        // The app may have ended meanwhile.
        if let state, let (host, memory) = relay.ends,
          await memory.hibernation.isAwaited(app, ticket, on: host)
        {
          try await calls.answer(within: limit, priority: .high) { try delegate.takeOver(state) }
        }
        result = .success(state != nil)
      } catch {
        result = .failure(error)
      }
      guard let (host, memory) = relay.ends else { return false }
      return await memory.hibernation.restored(app, ticket, name, result, on: host)
    }
    app.phase = .restoring(ticket: ticket, task, savesAfterwards: false)
    return task
  }

  private func isAwaited(_ app: KeptApp, _ ticket: UInt64, on host: isolated AppHost) -> Bool {
    if case .restoring(ticket, _, _) = app.phase { true } else { false }
  }

  /// - Parameter result: whether a state was handed over.
  private func restored(
    _ app: KeptApp, _ ticket: UInt64, _ name: String?, _ result: Result<Bool, any Error>,
    on host: isolated AppHost
  ) -> Bool {
    if let name { forget(name) }
    guard case .restoring(ticket, _, let savesAfterwards) = app.phase else {
      return false
    }
    app.phase = .inMemory
    switch result {
    case .success(let wasAway): if wasAway { report(.restored(app.id, name: app.memory.name)) }
    case .failure(let error):
      report(.notRestored(app.id, name: app.memory.name, "\(error)"))
      return false
    }
    if savesAfterwards { save(app) }
    return true
  }

  /// Frees the app's space in the store. A record that cannot be removed now stays until the store is opened
  /// again.
  func forget(_ name: String) {
    Task(executorPreference: background.executor, priority: .utility) { [keeper] in
      try? await keeper?.remove(name)
    }
  }
}

extension KeptApp.Stored {
  /// Fills the memory, and returns the bytes.
  fileprivate func bringBack() throws -> [UInt8] {
    guard let bytes = try record.load(into: memory) else { throw MemoryLost() }
    return bytes
  }
}

/// Memory could not take its content back.
private struct MemoryLost: Error, CustomStringConvertible {
  var description: String { "its memory is in use, of another size, or was not locked" }
}
