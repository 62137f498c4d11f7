import Opportune

actor Counter {
  private var count = 0
  func increment() { count &+= 1 }
}

/// An actor that runs on a strand.
actor StrandCounter {
  private let strand: Strand
  private var count = 0

  init(_ strand: Strand) { self.strand = strand }

  nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }

  func increment() { count &+= 1 }
}
