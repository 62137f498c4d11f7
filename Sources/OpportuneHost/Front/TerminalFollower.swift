internal import Glibc
internal import OpportuneApps
internal import OpportuneBase

/// Follows terminals by what inotify(7) tells of them.
///
/// A shell may set the group a while after it has read a line, and a job that is silent then gives no event.
/// So after an event it looks a few times more, with doubled pauses, until it waits without an end.
final class TerminalFollower: FrontFollower {
  private let source: TerminalFront
  private var watch: Int32 = -1
  private var hasBegun = false
  private var folder: Int32 = -1
  /// The terminals that are watched, by the numbers of their watches.
  private var terminals: [Int32: String] = [:]
  /// The one that was typed into last.
  private var used: String?
  /// A process of each terminal's session, which has told the group there before.
  private var tellers: [String: ProcessID] = [:]
  /// Those at which something has happened since there was nothing to look for.
  private var touched: Set<String> = []
  /// The groups that were told, and the terminal that was told to be the used one.
  private var told: [String: pid_t?] = [:]
  private var toldUsed: String?
  private var toldWhether: FrontEvent?
  private var looksAt: Moment?
  /// How many looks have found no event since the last.
  private var quietLooks = 0

  /// Also how long events are left to gather, so that a program that writes without end costs little.
  static let firstPause: Duration = .milliseconds(20)
  /// 1.3 seconds in all.
  static let mostQuietLooks = 6

  init(_ source: TerminalFront) { self.source = source }

  deinit { if watch >= 0 { close(watch) } }

  var waits: [pollfd] {
    let gathers = looksAt != nil && quietLooks == 0
    return watch < 0 || gathers ? [] : [pollfd(fd: watch, events: Int16(POLLIN), revents: 0)]
  }

  var nextDeadline: Moment? { looksAt }

  func advance(_ ready: Set<Int32>, now: Moment) -> [FrontEvent] {
    var events: [FrontEvent] = []
    if !hasBegun {
      hasBegun = true
      begin(&events)
    } else if watch >= 0, ready.contains(watch) {
      looksAt = now
    }
    guard let due = looksAt, due <= now else { return events }
    quietLooks = drain(&events) ? 0 : quietLooks + 1
    for path in touched.sorted() where path != used { look(at: path, &events) }
    if let used { look(at: used, &events) }
    looksAt = quietLooks < Self.mostQuietLooks ? now + Self.firstPause * (1 << quietLooks) : nil
    if looksAt == nil { touched = [] }
    return events
  }

  private func look(at path: String, _ events: inout [FrontEvent]) {
    let group = group(of: path)
    let isNew = path == used && toldUsed != used
    guard isNew || told[path] != .some(group) else { return }
    if path == used { toldUsed = used }
    told[path] = .some(group)
    events.append(.focus(.job(TerminalJob(terminal: path, group: group, isUsed: path == used))))
  }

  // MARK: Which terminals

  private func begin(_ events: inout [FrontEvent]) {
    watch = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
    let made = UInt32(IN_CREATE) | UInt32(IN_ATTRIB) | UInt32(IN_ONLYDIR)
    folder = watch < 0 ? -1 : inotify_add_watch(watch, source.folder, made)
    guard folder >= 0 else {
      let why = errorText(errno)
      if watch >= 0 { close(watch) }
      watch = -1
      return events.append(.lost("\(source.name): '\(source.folder)' cannot be watched: \(why)"))
    }
    for path in source.paths { consider(path, &events) }
    // As of the last that was typed into, by the time of its last reading.
    used = terminals.values.max { Self.lastRead($0) < Self.lastRead($1) }
    looksAt = .zero
    tellWhether(&events)
  }

  private static func lastRead(_ path: String) -> Int {
    var status = stat()
    return stat(path, &status) == 0 ? status.st_atim.tv_sec : 0
  }

  /// A terminal has come, or has another owner.
  private func consider(_ path: String, _ events: inout [FrontEvent]) {
    let known = terminals.first { $0.value == path }?.key
    guard source.follows(path) else {
      if let known { inotify_rm_watch(watch, known) }
      return
    }
    guard known == nil else { return }
    let number = inotify_add_watch(watch, path, UInt32(IN_ACCESS) | UInt32(IN_MODIFY))
    if number >= 0 {
      terminals[number] = path
    } else if errno != ENOENT {
      tell(.lost("the terminal \(path) cannot be watched: \(errorText(errno))"), &events)
    }
  }

  private func tellWhether(_ events: inout [FrontEvent]) {
    if source.path == nil || !terminals.isEmpty {
      tell(.followed(source.name), &events)
    } else if let path = source.path, !SystemFile.exists(path) {
      tell(.lost("\(source.name) is not there by now"), &events)
    }
  }

  private func tell(_ event: FrontEvent, _ events: inout [FrontEvent]) {
    if event == toldWhether { return }
    toldWhether = event
    events.append(event)
  }

  // MARK: What happens there

  /// - Returns: whether there were any events.
  private func drain(_ events: inout [FrontEvent]) -> Bool {
    var bytes = [UInt8](repeating: 0, count: 1 << 14)
    var hasEvents = false
    // A bound, so that a terminal that is written to without end does not keep the host from its other work.
    for _ in 0..<64 {
      let count = read(watch, &bytes, bytes.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      hasEvents = true
      take(ByteReader(bytes[..<count]), &events)
    }
    if hasEvents { tellWhether(&events) }
    return hasEvents
  }

  /// Each is `struct inotify_event` and a name: all fields have four bytes.
  private func take(_ reader: ByteReader, _ events: inout [FrontEvent]) {
    var place = 0
    while place + 16 <= reader.count {
      let number = Int32(bitPattern: reader.four(place))
      let (mask, length) = (reader.four(place + 4), Int(reader.four(place + 12)))
      if number == folder {
        let name = String(decoding: reader.part(place + 16, length).prefix { $0 != 0 }, as: UTF8.self)
        if !name.isEmpty { consider(source.folder + "/" + name, &events) }
      } else if mask & UInt32(IN_IGNORED) != 0 {
        if let gone = terminals.removeValue(forKey: number) {
          (tellers[gone], told[gone]) = (nil, nil)
          touched.remove(gone)
          if used == gone { (used, toldUsed) = (nil, nil) }
          events.append(.focus(.job(TerminalJob(terminal: gone, group: nil, isUsed: false))))
        }
      } else if let path = terminals[number] {
        touched.insert(path)
        if mask & UInt32(IN_ACCESS) != 0 { used = path }
      }
      place += 16 + length
    }
  }

  // MARK: The group

  /// The terminal's foreground process group, as /proc tells it of a process whose terminal it is: the kernel
  /// answers TIOCGPGRP to those alone.
  private func group(of path: String) -> pid_t? {
    guard let device = TerminalFront.device(path)?.number else { return nil }
    if let known = tellers[path], let process = ProcessStat(of: known.pid), process.id == known,
      process.terminal == device
    {
      return process.terminalGroup
    }
    // Who leads the session stays the longest.
    let all = ProcessTable.all().filter { $0.terminal == device && !$0.hasEnded }
    let teller = all.first { $0.pid == $0.session } ?? all.first
    tellers[path] = teller?.id
    return teller?.terminalGroup
  }
}
