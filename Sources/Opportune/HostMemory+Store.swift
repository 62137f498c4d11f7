import OpportuneApps
import OpportuneMemory

/// What is known of an app's memory, and where its state is. On the host's strand alone.
final class KeptApp {
  enum Phase {
    case inMemory
    /// Handed over, and not yet given back: until then it is all still there.
    case saving(ticket: UInt64, HandedState)
    case stored(Stored)
    /// On its way back. It may have been hibernated once more meanwhile.
    case restoring(ticket: UInt64, Task<Bool, Never>, savesAfterwards: Bool)
  }

  struct Stored: Sendable {
    let name: String
    let record: StoredRecord
    let memory: [HeldMemory]
  }

  let memory: AppMemory
  /// For the switcher.
  var image: KeptImage?
  var delegate: (any AppDelegate)?
  var phase = Phase.inMemory
  var hibernatesWhenSuspended = false

  init(_ memory: AppMemory) { self.memory = memory }
}

/// To the store and back. (R-MEM-05, R-MEM-07)
extension HostMemory {
  public func save(_ app: AppID) {
    guard let kept = apps[app] else { return }
    // What can be made again is not written. The image of an app that is away is all that there is to see of it.
    kept.image?.isVolatile = false
    kept.memory.purge()
    kept.image?.isVolatile = true
    switch kept.phase {
    case .saving, .stored: return
    case .restoring(let ticket, let task, _):
      kept.phase = .restoring(ticket: ticket, task, savesAfterwards: true)
      return
    case .inMemory: break
    }
    guard let keeper, let delegate = kept.delegate as? any HibernatingApp else {
      let why = whyNotHibernated(kept)
      return later { $0.notSaved(app, nil, why, on: $1) }
    }
    let state: HandedState
    do {
      state = try delegate.handOver()
    } catch {
      return later { $0.notSaved(app, nil, "\(error)", on: $1) }
    }
    tickets += 1
    let (ticket, name) = (tickets, "\(app).\(tickets)")
    kept.phase = .saving(ticket: ticket, state)
    Task(executorPreference: background.executor, priority: .utility) { [relay] in
      do {
        let record = try await keeper.save(name, state)
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
    guard let kept = apps[app], case .saving(ticket, _) = kept.phase else { return forget(stored.name) }
    for memory in stored.memory { memory.giveBack() }
    kept.memory.settle()
    kept.phase = .stored(stored)
    tell(.stored(app, bytes: stored.record.bytes))
  }

  /// - Parameter ticket: `nil`: it did not hand over anything.
  private func notSaved(_ app: AppID, _ ticket: UInt64?, _ why: String, on host: isolated AppHost) {
    guard let kept = apps[app] else { return }
    switch kept.phase {
    case .saving(ticket ?? 0, _): kept.phase = .inMemory
    case .inMemory where ticket == nil: break
    case .inMemory, .saving, .stored, .restoring: return
    }
    guard host.state(of: app) == .hibernated else { return }
    tell(.notStored(app, why))
    try? host.post(.app(app, .terminate))
  }

  public func restore(_ app: AppID) -> Task<Bool, Never>? {
    guard let kept = apps[app] else { return nil }
    switch kept.phase {
    case .inMemory: return nil
    case .saving(_, let state):
      // Nothing was given back, and nobody waits for the disk.
      kept.phase = .inMemory
      return takeOver(state, app, kept) ? nil : Task { false }
    case .restoring(let ticket, let task, _):
      kept.phase = .restoring(ticket: ticket, task, savesAfterwards: false)
      return task
    case .stored(let stored):
      tickets += 1
      let ticket = tickets
      let task = Task(executorPreference: foreground.executor, priority: .high) { [relay] in
        let result = Result { try stored.bringBack() }
        guard let (host, memory) = relay.ends else { return false }
        return await memory.restored(app, ticket, stored, result, on: host)
      }
      kept.phase = .restoring(ticket: ticket, task, savesAfterwards: false)
      return task
    }
  }

  private func restored(
    _ app: AppID, _ ticket: UInt64, _ stored: KeptApp.Stored, _ result: Result<[UInt8], any Error>,
    on host: isolated AppHost
  ) -> Bool {
    forget(stored.name)
    guard let kept = apps[app], case .restoring(ticket, _, let savesAfterwards) = kept.phase else { return false }
    kept.phase = .inMemory
    switch result {
    case .success(let bytes):
      guard takeOver(HandedState(bytes, memory: stored.memory), app, kept) else { return false }
    case .failure(let error):
      tell(.notRestored(app, "\(error)"))
      return false
    }
    if savesAfterwards { save(app) }
    return true
  }

  private func takeOver(_ state: HandedState, _ app: AppID, _ kept: KeptApp) -> Bool {
    guard let delegate = kept.delegate as? any HibernatingApp else { return false }
    do {
      try delegate.takeOver(state)
    } catch {
      tell(.notRestored(app, "\(error)"))
      return false
    }
    tell(.restored(app))
    return true
  }

  /// Its space in the store is free. What cannot be removed now stays until the store is opened anew.
  func forget(_ name: String) {
    Task(executorPreference: background.executor, priority: .utility) { [keeper] in try? await keeper?.remove(name) }
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
