internal import OpportuneApps
internal import OpportuneBase
internal import OpportuneMemory

/// What is done when memory is short: a pure value. (R-MEM-01, R-MEM-13, R-MEM-14)
///
/// Each word that memory is short leads to one step at most that takes memory, and the next follows when that
/// one has had time to help. Paging out comes first, which loses nothing; then suspended apps are terminated,
/// one at a time. Who runs is told, and nothing is taken from it.
package struct ShortagePolicy: Sendable, Hashable {
  /// How far the host goes.
  package enum Answer: String, Sendable, Hashable, CaseIterable {
    /// Programs that cooperate are warned.
    case warn
    /// What is suspended is paged out as well.
    case pageout
    /// And terminated, where that has not helped.
    case terminate
  }

  /// How far the host goes.
  package var answer = Answer.pageout
  /// From the end of a step to the next one: a window of the kernel's pressure.
  package var settle: Duration = .seconds(2)

  private var isPaging = false
  private var quietUntil = Moment.zero

  package init(answer: Answer = .pageout, settle: Duration = .seconds(2)) {
    (self.answer, self.settle) = (answer, settle)
  }

  /// An app as this policy sees it.
  struct App: Sendable, Hashable {
    var name: String
    /// Nothing of it executes.
    var isSuspended = false
    /// It is exempt, by its user or its manifest, as who plays audio is.
    var isKept = false
    /// It has been paged out since it was suspended, as far as that was possible.
    var isPagedOut = false
    /// It has joined, runs, and is not being told by now.
    var hears = false
    /// What it has in main memory, in bytes.
    var footprint: UInt64 = 0
    /// Since it was in front, or began.
    var idle: Duration = .zero
    var wasInFront = false
  }

  enum Step: Sendable, Hashable {
    /// Those are told that memory is short.
    case warn([String])
    /// Those are paged out, in this order; ``pagingEnded(at:_:)`` follows.
    case pageOut([String])
    /// That one is ended; and why it was chosen.
    case terminate(String, String)
  }

  /// Memory is short, somebody says.
  ///
  /// - Parameter capacity: bytes of main memory.
  mutating func isShort(at now: Moment, _ apps: [App], capacity: UInt64) -> [Step] {
    let told = apps.filter(\.hears).map(\.name)
    let warning = told.isEmpty ? [] : [Step.warn(told)]
    guard answer != .warn, !isPaging, now >= quietUntil else { return warning }
    let resident = apps.filter { $0.isSuspended && !$0.isPagedOut }
    if !resident.isEmpty {
      isPaging = true
      return warning + [.pageOut(resident.sorted { ($0.idle, $1.name) > ($1.idle, $0.name) }.map(\.name))]
    }
    guard answer == .terminate, let step = removal(apps, capacity) else { return warning }
    quietUntil = now + settle
    return warning + [step]
  }

  /// Bytes that apps had in main memory before they were paged out, and after.
  struct Paged: Sendable, Hashable {
    var before: UInt64 = 0
    var after: UInt64 = 0

    /// Where less than a sixteenth has gone, as without swap, there is nothing to wait for.
    var hasHelped: Bool { before.saturatingSubtract(after) >= before / 16 }
  }

  mutating func pagingEnded(at now: Moment, _ paged: Paged) {
    isPaging = false
    quietUntil = paged.hasHelped ? now + settle : now
  }

  /// When a further step may follow; `nil`: as soon as a word comes.
  func mayAct(after now: Moment) -> Moment? {
    isPaging ? now + settle : quietUntil > now ? quietUntil : nil
  }

  private func removal(_ apps: [App], _ capacity: UInt64) -> Step? {
    let candidates = apps.enumerated().filter { $0.element.isSuspended && !$0.element.isKept }.map {
      RemovalCandidate(
        app: UInt32(clamping: $0.offset), name: $0.element.name, standing: .suspended,
        footprint: $0.element.footprint, idle: $0.element.idle.unsignedNanoseconds,
        wasInFront: $0.element.wasInFront)
    }
    let reading = MemoryReading(capacity: capacity, inUse: capacity)
    guard let (victim, rule) = RemovalPolicy().victim(of: candidates, reading) else { return nil }
    return .terminate(
      victim.name, "it was suspended with \(victim.footprint.inMegabytes), and of those that were, \(rule)")
  }
}
