import OpportuneApps
import OpportuneMemory
import Synchronization

/// What is known of an app's memory, and where its state is. On the host's strand alone.
final class KeptApp {
  enum Phase {
    case inMemory
    case handing(ticket: UInt64, Task<HandedState, any Error>)
    /// Handed over, and not yet given back: until then it is all still there.
    case saving(ticket: UInt64, HandedState, Absence)
    case stored(Stored)
    /// On its way back. It may have been hibernated once more meanwhile.
    case restoring(ticket: UInt64, Task<Bool, Never>, savesAfterwards: Bool)
  }

  struct Stored: Sendable {
    let name: String
    let record: StoredRecord
    let memory: [HeldMemory]
    /// What it held outside, as it said.
    var outside: UInt64 = 0
  }

  let memory: AppMemory
  /// For the switcher.
  var image: KeptImage?
  var delegate: (any AppDelegate)?
  var phase = Phase.inMemory
  var hibernatesWhenSuspended = false
  /// It was last asked to go for what nobody needs.
  var isOptional = false
  /// It counts as hibernated, but the store did not take it: it has all that it had, and goes when memory is
  /// short.
  var stays = false

  init(_ memory: AppMemory) { self.memory = memory }
}

/// As long as an app does without what it handed over, so that the store may read it.
///
/// The app waits for nobody when it takes that back: the store may just be reading, and what it has read
/// since is of no use.
final class Absence: Sendable {
  private let isOver = Atomic<Bool>(false)

  /// Before the app has anything back.
  func end() {
    // Acquiring: pairs with `lasts`. Two read-modify-writes of one word come one after the other: where this
    // one is the later, all that was read before `lasts` was read before what the app writes next.
    _ = isOver.exchange(true, ordering: .acquiring)
  }

  /// Whether all that was read until now was read during the absence.
  var lasts: Bool {
    // Releasing: see end(). It writes what is there, since a load alone may be early.
    !isOver.logicalOr(false, ordering: .releasing).newValue
  }
}

/// To the store and back. (R-MEM-05, R-MEM-07)
extension HostMemory {
  package func save(_ app: AppID) {
    guard let kept = apps[app] else { return }
    // What can be made again is not written. The image of an app that is away is all that there is to see of
    // it.
    kept.image?.isVolatile = false
    kept.memory.purge()
    kept.image?.isVolatile = true
    switch kept.phase {
    case .handing, .saving, .stored: return
    case .restoring(let ticket, let task, _):
      kept.phase = .restoring(ticket: ticket, task, savesAfterwards: true)
      return
    case .inMemory: break
    }
    guard keeper != nil, let delegate = kept.delegate as? any HibernatingApp else {
      let why = whyNotHibernated(kept)
      return later { $0.notSaved(app, nil, why, on: $1) }
    }
    tickets += 1
    let (ticket, limit) = (tickets, callLimit)
    let call = Task(executorPreference: foreground.executor) { [calls] in
      try await calls.answer(within: limit, priority: .utility) { try delegate.handOver() }
    }
    kept.phase = .handing(ticket: ticket, call)
    Task(executorPreference: foreground.executor) { [relay] in
      let result = await call.result
      guard let (host, memory) = relay.ends else { return }
      await memory.handed(app, ticket, result, on: host)
    }
  }

  /// Half of what a callback may take, so that what waits for this does not overrun first.
  private var callLimit: Duration {
    ownCallLimit ?? (relay.ends?.0.policy ?? AppsPolicy()).callbackLimit / 2
  }

  private func handed(
    _ app: AppID, _ ticket: UInt64, _ result: Result<HandedState, any Error>, on host: isolated AppHost
  ) {
    guard let keeper, let kept = apps[app], case .handing(ticket, _) = kept.phase else { return }
    switch result {
    case .success(let state): write(state, of: app, kept, keeper)
    case .failure(let error):
      // What it still hands over, nobody takes.
      if error is TimedCalls.Overrun { kept.isOptional = false }
      notSaved(app, ticket, "\(error)", on: host)
    }
  }

  /// The store may have room by now.
  func saveAnew(_ app: AppID, _ kept: KeptApp) {
    kept.stays = false
    kept.isOptional = false
    kept.memory.setStanding(.gone)
    if case .saving(_, let state, _) = kept.phase, let keeper { return write(state, of: app, kept, keeper) }
    kept.phase = .inMemory
    save(app)
  }

  private func write(_ state: HandedState, of app: AppID, _ kept: KeptApp, _ keeper: StoreKeeper) {
    tickets += 1
    let (ticket, absence) = (tickets, Absence())
    kept.phase = .saving(ticket: ticket, state, absence)
    let name = "\(app).\(ticket)"
    Task(executorPreference: background.executor, priority: .utility) { [relay] in
      do {
        let record = try await keeper.save(name, state, during: absence)
        guard let (host, memory) = relay.ends else { return }
        let stored = KeptApp.Stored(name: name, record: record, memory: state.memory)
        await memory.saved(app, ticket, stored, on: host)
      } catch {
        guard let (host, memory) = relay.ends else { return }
        await memory.notSaved(app, ticket, "\(error)", on: host)
      }
    }
  }

  func whyNotHibernated(_ kept: KeptApp) -> String {
    keeper == nil ? "there is no store" : "it hands nothing over"
  }

  private func saved(_ app: AppID, _ ticket: UInt64, _ stored: KeptApp.Stored, on host: isolated AppHost) {
    guard let kept = apps[app], case .saving(ticket, _, _) = kept.phase else { return forget(stored.name) }
    for memory in stored.memory { memory.giveBack() }
    var stored = stored
    stored.outside = kept.memory.letGoOutside()
    kept.memory.finishReturning()
    kept.phase = .stored(stored)
    tell(.stored(app, name: kept.memory.name, bytes: stored.record.bytes))
  }

  /// - Parameter ticket: `nil`: it did not hand over anything.
  private func notSaved(_ app: AppID, _ ticket: UInt64?, _ why: String, on host: isolated AppHost) {
    guard let kept = apps[app] else { return }
    switch kept.phase {
    case .handing(ticket ?? 0, _), .saving(ticket ?? 0, _, _): break
    case .inMemory where ticket == nil: break
    case .inMemory, .handing, .saving, .stored, .restoring: return
    }
    let isAway = host.state(of: app) == .hibernated
    if isAway, kept.isOptional {
      // The phase stays as well: restoring finds in it what was handed over.
      kept.stays = true
      kept.memory.setStanding(.suspended)
      return tell(.notStored(app, name: kept.memory.name, why))
    }
    kept.phase = .inMemory
    guard isAway else { return }
    tell(.notStored(app, name: kept.memory.name, why))
    try? host.post(.app(app, .terminate))
  }

  package func restore(_ app: AppID) -> Task<Bool, Never>? {
    guard let kept = apps[app] else { return nil }
    switch kept.phase {
    case .inMemory: return nil
    case .handing(_, let call):
      return restore(app, kept, nil) {
        switch await call.result {
        case .success(let state): return state
        case .failure(let error as TimedCalls.Overrun): throw error
        // It has all that it had.
        case .failure: return nil
        }
      }
    // Nothing was given back, and nobody waits for the disk.
    case .saving(_, let state, let absence):
      absence.end()
      return restore(app, kept, nil) { state }
    case .restoring(let ticket, let task, _):
      kept.phase = .restoring(ticket: ticket, task, savesAfterwards: false)
      return task
    case .stored(let stored):
      if stored.outside > 0 { try? kept.memory.setOutside(bytes: stored.outside) }
      return restore(app, kept, stored.name) { HandedState(try stored.bringBack(), memory: stored.memory) }
    }
  }

  /// - Parameter fetch: what it handed over; `nil`: nothing.
  private func restore(
    _ app: AppID, _ kept: KeptApp, _ name: String?,
    _ fetch: @escaping @Sendable () async throws -> HandedState?
  ) -> Task<Bool, Never> {
    guard let delegate = kept.delegate as? any HibernatingApp else { return Task { false } }
    tickets += 1
    let (ticket, limit) = (tickets, callLimit)
    let task = Task(executorPreference: foreground.executor, priority: .high) { [relay, calls] in
      let result: Result<Bool, any Error>
      do {
        let state = try await fetch()
        // It may have ended meanwhile.
        if let state, let (host, memory) = relay.ends, await memory.isAwaited(app, ticket, on: host) {
          try await calls.answer(within: limit, priority: .high) { try delegate.takeOver(state) }
        }
        result = .success(state != nil)
      } catch {
        result = .failure(error)
      }
      guard let (host, memory) = relay.ends else { return false }
      return await memory.restored(app, ticket, name, result, on: host)
    }
    kept.phase = .restoring(ticket: ticket, task, savesAfterwards: false)
    return task
  }

  private func isAwaited(_ app: AppID, _ ticket: UInt64, on host: isolated AppHost) -> Bool {
    if case .restoring(ticket, _, _)? = apps[app]?.phase { true } else { false }
  }

  /// - Parameter result: whether it had handed anything over.
  private func restored(
    _ app: AppID, _ ticket: UInt64, _ name: String?, _ result: Result<Bool, any Error>,
    on host: isolated AppHost
  ) -> Bool {
    if let name { forget(name) }
    guard let kept = apps[app], case .restoring(ticket, _, let savesAfterwards) = kept.phase else {
      return false
    }
    kept.phase = .inMemory
    switch result {
    case .success(let wasAway): if wasAway { tell(.restored(app, name: kept.memory.name)) }
    case .failure(let error):
      tell(.notRestored(app, name: kept.memory.name, "\(error)"))
      return false
    }
    if savesAfterwards { save(app) }
    return true
  }

  /// Its space in the store is free. What cannot be removed now stays until the store is opened anew.
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

/// Memory did not take its content back.
private struct MemoryLost: Error, CustomStringConvertible {
  var description: String { "its memory is in use, of another size, or was not locked" }
}
