import OpportuneMemory
import OpportuneScheduler

/// The hibernation store on a strand of the background band, where waiting for the disk delays no foreground
/// work.
actor StoreKeeper {
  private let store: HibernationStore
  private let strand: Strand

  init(_ store: sending HibernationStore, _ strand: Strand) {
    self.store = store
    self.strand = strand
  }

  nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }

  /// Removes what an earlier run has left: its apps no longer run.
  func clear() throws(StoreError) { for app in store.apps { try store.remove(app) } }

  func save(_ name: String, _ state: HandedState, during absence: Absence) throws -> StoredRecord {
    _ = try state.bytes.withUnsafeBytes { bytes in
      try HeldMemory.withContents(of: state.memory) { contents in
        try store.save(name, [bytes] + contents) { absence.lasts }
      }
    }
    return try store.record(of: name)
  }

  func remove(_ name: String) throws(StoreError) { try store.remove(name) }
}
