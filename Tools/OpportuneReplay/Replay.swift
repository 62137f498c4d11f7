import Opportune
import OpportuneBase

/// What a replay is run with.
package struct ReplayOptions: Sendable {
  package var policy = AppsPolicy()
  package var onBattery = true
  /// Bytes of an app whose footprint the trace does not say.
  package var footprint: UInt64 = 64 << 20
  /// By app; for those whose footprint the trace does not say.
  package var sizes: [String: UInt64] = [:]
  /// Bytes of main memory; `nil`: it is never short.
  package var memory: UInt64?
  /// The share of it in use from which on apps are removed.
  package var criticalPoint = CriticalPoint.threeQuarters
  /// Who is removed then.
  package var removal: any RemovalChoosing = RemovalPolicy()
  /// The first rule whose pattern an app's name contains gives its manifest's modes.
  package var manifestRules: [(pattern: String, modes: Set<Manifest.Mode>)] = []

  package init() {}
}

/// Why a replay differs from what the device did. A closed list.
package enum DivergenceCause: String, Sendable, Hashable, CaseIterable, Codable {
  /// The device ran it in background for work that the trace does not record.
  case unrecordedWork
  /// The device suspended it before the policy's grace or task time was over.
  case longerGrace
  /// The trace does not record what brought it to the front.
  case unrecordedForeground
  /// The device ended it for a reason that the trace does not record.
  case unrecordedEnd
  /// The policy ended it, the device did not.
  case endedByPolicy
}

/// What was found.
package struct ReplayReport: Sendable {
  package struct Divergence: Sendable, Hashable {
    package var at: Double
    package var app: String
    package var expected: LifecycleState.Operational
    package var got: LifecycleState.Operational
    package var cause: DivergenceCause
  }

  package struct Span: Sendable, Hashable {
    package var app: String
    package var state: LifecycleState.Operational
    package var start: Double
    package var end: Double
  }

  /// What an app came to the front from that was not there. `foreground`: it was in front beside another.
  package enum Switch: String, Sendable, Hashable, CaseIterable {
    case foreground, background, suspended, hibernated, cold
  }

  package var format = ""
  package var start = 0.0
  package var end = 0.0
  package var events = 0
  package var apps: [String] = []
  package var seconds: [LifecycleState.Operational: Double] = [:]
  package var switches: [Switch: Int] = [:]
  /// Switches to another app than was in front before; the others are returns, as after the screen was off.
  package var changes = 0
  package var granted = 0.0
  package var used = 0.0
  package var assertions = 0
  package var refusals = 0
  package var kills: [String: Int] = [:]
  /// As in the options.
  package var memory: UInt64?
  package var criticalPoint = CriticalPoint.threeQuarters
  /// Who was removed as memory was short, and why, in order.
  package var removals: [ReplayRemoval] = []
  /// How often a hibernated app came back to memory, to the front or not.
  package var reanimations = 0
  package var compared = 0
  package var notObservable = 0
  package var divergences: [Divergence] = []
  package var sums: [String: Double] = [:]
  package var spans: [Span] = []
  package var rules: [String: [BestPractice: Int]] = [:]
  package var hash: UInt64 = 0
  /// As of the trace.
  package var notes: [String] = []

  /// How often an app came to the front.
  package var switchCount: Int { switches.values.reduce(0, +) }
}

/// Runs a trace in virtual time.
package enum Replay {
  /// - Throws: ``PolicyError``, ``AppsError``.
  package static func run(_ trace: Trace, _ options: ReplayOptions = ReplayOptions()) throws -> ReplayReport {
    var run = try Run(trace, options)
    return try run.finish()
  }

  struct Run {
    let trace: Trace
    let options: ReplayOptions
    var host: VirtualHost
    var report = ReplayReport()
    var ids: [String: AppID] = [:]
    var names: [String] = []
    /// When the trace first says something that runs an app; what it did before cannot be known.
    var firstInput: [String: Double] = [:]
    var open: [Int64: TaskID] = [:]
    /// Who came to the front last.
    private var front: AppID?
    /// Bytes of an app that is launched, as the trace said last, or says first.
    var sizes: [String: UInt64]
    /// When each app was launched last.
    var launches: [AppID: Moment] = [:]
    /// Entries of the log that memory has been asked about.
    var accounted = 0
    let start: Double

    init(_ trace: Trace, _ options: ReplayOptions) throws {
      self.trace = trace
      self.options = options
      var policy = options.policy
      // Inputs come as they were recorded, whatever the app declared.
      policy.tasks.needsDeclaration = false
      sizes = trace.sizes.compactMapValues(\.first)
      host = try VirtualHost(policy: policy, keepsLog: true, hashesLog: true)
      start = min(trace.inputs.first?.at ?? .infinity, trace.expectations.first?.at ?? .infinity)
      report.format = trace.format
      report.start = start.isFinite ? start : 0
      report.memory = options.memory
      report.criticalPoint = options.criticalPoint
      report.notes = trace.notes
    }

    mutating func finish() throws -> ReplayReport {
      for sum in trace.sums { report.sums[sum.app, default: 0] += sum.seconds }
      guard start.isFinite else {
        report.apps = report.sums.keys.sorted()
        report.start = trace.sums.map(\.at).min() ?? 0
        report.end = trace.sums.map { $0.at + $0.length }.max() ?? 0
        return report
      }
      try host.post(.wallClock(start))
      try host.post(.power(options.onBattery ? .battery : .mains))
      for (at, input) in trace.inputs {
        if let app = input.runs, firstInput[app] == nil { firstInput[app] = at }
      }
      var next = 0
      for (at, input) in trace.inputs {
        while next < trace.expectations.count, trace.expectations[next].at < at { try compare(&next) }
        try run(until: at)
        try apply(input)
        try account()
      }
      while next < trace.expectations.count { try compare(&next) }
      summarise()
      return report
    }

    /// Until seconds since 1970.
    private mutating func run(until at: Double) throws {
      let end = max(host.now, Moment.seconds(at - start))
      while try host.step(until: end) { try account() }
      try host.run(until: end)
    }

    private mutating func id(of app: String) -> AppID {
      if let id = ids[app] { return id }
      let rule = options.manifestRules.first { app.contains($0.pattern) }
      let id = host.register(Manifest(identifier: app, backgroundModes: rule?.modes ?? []))
      ids[app] = id
      names.append(app)
      return id
    }

    private mutating func apply(_ input: Trace.Input) throws {
      report.events += 1
      switch input {
      case .front(let app):
        let id = id(of: app)
        let state = host.system.state(of: id) ?? .notRunning
        if host.system.frontmost != id {
          let from: ReplayReport.Switch =
            switch state {
            case .active, .inactive: .foreground
            case .background, .stopping: .background
            case .suspended: .suspended
            case .hibernated: .hibernated
            case .notRunning, .terminated: .cold
            }
          report.switches[from, default: 0] += 1
          if front != id { report.changes += 1 }
          front = id
        }
        try host.post(state == .notRunning || state == .terminated ? .launch : .bringForward, id)
      case .left(let app): try host.post(.leave, id(of: app))
      case .started(let app):
        let id = id(of: app)
        let state = host.system.state(of: id)
        guard state == .notRunning || state == .terminated else { return }
        try host.post(.launchInBackground(.system), id)
      case .assertion(let app, let identifier, let begins): try assert(id(of: app), identifier, begins)
      case .notification(let app):
        let id = id(of: app)
        try host.post(.message(Message("notification")), id)
      case .footprint(let app, let bytes):
        sizes[app] = bytes
        try host.post(.footprint(bytes), id(of: app))
      case .power(let supply): try host.post(.power(supply))
      case .shutdown:
        for id in ids.values.sorted() where host.system.state(of: id) != .notRunning {
          try host.post(.exited, id)
        }
        open = [:]
      }
    }

    /// A recorded assertion runs the app: it is woken if need be, and holds a task until the end.
    private mutating func assert(_ id: AppID, _ identifier: Int64, _ begins: Bool) throws {
      guard begins else {
        if let task = open.removeValue(forKey: identifier),
          host.system.view(of: id)?.openTasks.contains(task) == true
        {
          try host.post(.endTask(task), id)
        }
        return
      }
      if let state = host.system.state(of: id), !state.mayExecute {
        try host.post(.message(Message("assertion")), id)
      }
      let place = host.log.count
      try host.post(.beginTask(.other), id)
      for entry in host.log[place...] where entry.app == id {
        if case .taskBegan(let task) = entry.action {
          open[identifier] = task
          report.assertions += 1
        }
        if case .taskRefused = entry.action { report.refusals += 1 }
      }
    }

    private mutating func compare(_ next: inout Int) throws {
      let row = trace.expectations[next]
      next += 1
      guard let first = firstInput[row.app], first <= row.at else {
        report.notObservable += 1
        return
      }
      try run(until: row.at)
      report.compared += 1
      let state = ids[row.app].flatMap { host.system.state(of: $0) } ?? .notRunning
      var got = state.operational
      if got == .notRunning { got = .terminated }
      guard got != row.state else { return }
      report.divergences.append(
        ReplayReport.Divergence(
          at: row.at, app: row.app, expected: row.state, got: got, cause: cause(row.state, got)))
    }

    private func cause(_ expected: LifecycleState.Operational, _ got: LifecycleState.Operational)
      -> DivergenceCause
    {
      switch (expected, got) {
      case (.foreground, _): .unrecordedForeground
      case (.terminated, _), (.notRunning, _): .unrecordedEnd
      case (_, .terminated), (_, .notRunning), (_, .hibernated): .endedByPolicy
      case (.suspended, _), (.hibernated, _): .longerGrace
      case (.background, _): .unrecordedWork
      }
    }

    private mutating func summarise() {
      report.end = start + host.now.seconds
      report.apps = names
      report.hash = host.hash
      var since: [AppID: (LifecycleState.Operational, Moment)] = [:]
      func close(_ id: AppID, _ end: Moment) {
        guard let (state, begin) = since[id], state != .notRunning, state != .terminated else { return }
        let span = ReplayReport.Span(
          app: names[id.number], state: state, start: start + begin.seconds, end: start + end.seconds)
        report.spans.append(span)
        report.seconds[state, default: 0] += span.end - span.start
      }
      let policy = host.system.policy
      var tasks: [AppID: Int] = [:]
      for entry in host.log {
        switch entry.action {
        case .taskBegan: tasks[entry.app, default: 0] += 1
        case .taskEnded: tasks[entry.app, default: 0] -= 1
        case .moved(let from, let to, let event):
          if from.operational != to.operational {
            close(entry.app, entry.moment)
            since[entry.app] = (to.operational, entry.moment)
          }
          if to == .background, from != .stopping {
            let time =
              tasks[entry.app, default: 0] > 0 ? policy.tasks.wallClock ?? policy.grace : policy.grace
            report.granted += from.isForeground ? time.inSeconds : policy.eventTime.inSeconds
          }
          if from == .hibernated, to.isInMemory { report.reanimations += 1 }
          if to == .terminated { report.kills[event == .overrun ? "overran" : "terminated", default: 0] += 1 }
        default: break
        }
      }
      let removed = report.removals.count { $0.method == .terminate }
      if removed > 0, let all = report.kills["terminated"] {
        report.kills["terminated"] = all > removed ? all - removed : nil
        report.kills["removed"] = removed
      }
      for id in ids.values.sorted() {
        close(id, host.now)
        let broken = host.system.view(of: id)?.brokenRules ?? [:]
        if !broken.isEmpty { report.rules[names[id.number]] = broken }
      }
      report.used = report.seconds[.background] ?? 0
    }
  }
}
