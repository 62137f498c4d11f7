import OpportuneMemory
import OpportuneScheduler

/// The hibernation store on a strand of the background band, where waiting for the disk delays nobody in front.
actor StoreKeeper {
  private let store: HibernationStore
  private let strand: Strand

  init(_ store: sending HibernationStore, _ strand: Strand) {
    self.store = store
    self.strand = strand
  }

  nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }

  /// What an earlier run of the program left is of apps that do not run any more.
  func clear() throws(StoreError) { for app in store.apps { try store.remove(app) } }

  func save(_ name: String, _ state: HandedState, during absence: Absence) throws -> StoredRecord {
    try state.bytes.withUnsafeBytes { try save(name, [$0], state.memory[...], absence) }
    return try store.record(of: name)
  }

  /// Each piece of memory stays put while those after it are collected.
  private func save(
    _ name: String, _ parts: [UnsafeRawBufferPointer], _ rest: ArraySlice<HeldMemory>, _ absence: Absence
  ) throws(StoreError) {
    guard let next = rest.first else {
      try store.save(name, parts) { absence.lasts }
      return
    }
    try next.withContent { (content) throws(StoreError) in
      try save(name, parts + [content], rest.dropFirst(), absence)
    }
  }

  func remove(_ name: String) throws(StoreError) { try store.remove(name) }
}
