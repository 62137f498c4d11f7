import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneApps
@testable import OpportuneHost

/// A program that speaks the protocol itself and saves its state. It prints each event, `restoreState` with
/// the state. Arguments: a folder, where it prints to, where lines come from. The file `mode` of the folder
/// has what it does by now: `silent=EVENT`: it never answers that; `die=EVENT`: it ends there, with
/// `once` once; `hold=EVENT`: it answers that when a line has come; `none`, `large`: of its state;
/// `plain`: it joins without a word of that.
private let script = """
  place, out, held = words[0], open(words[1], "w", buffering=1), open(words[2])
  out.write(join(place + "/host.sock", restarts="plain" not in open(place + "/mode").read()) + "\\n")
  for told in events():
      event, mode = told["event"], open(place + "/mode").read().split()
      state = " " + open(told["file"]).read() if event == "restoreState" else ""
      launch = " " + told["launch"] if told.get("launch", "user") != "user" else ""
      out.write(event + state + launch + "\\n")
      if "die=" + event in mode:
          if "once" in mode: open(place + "/mode", "w").close()
          os._exit(3)
      if "silent=" + event in mode or "id" not in told: continue
      if event == "saveState" and "none" not in mode:
          with open(told["file"], "w") as file: file.write("x" * (1 << 20) + "x" if "large" in mode else "page 7")
      if "hold=" + event in mode: held.readline()
      say({"answer": told["id"]})
  while True: signal.pause()
  """

/// A host without swap, and the manifest of such a program, `app`.
final class Saving {
  let place: Place
  let manifests: ManifestPlace
  let key = Hosted.newKey()
  let backend: Backend
  let output: Output
  let input: Output
  let log = Told()
  let changes = Told()
  /// One; none while the next is to begin, which waits for the warden of the one before.
  private var running: [Hosted]
  private var socket: LineSocket?
  private let settings: Settings

  struct Settings {
    var answerGrace: Duration = .seconds(60)
    var hibernatesAfter: Duration?
    var hasSwap = false
    var flush: @Sendable ([String]) -> (path: String, error: Int32)? = SavedStates.flush
  }

  var hosted: Hosted { running[0] }
  var host: ProcessHost { hosted.host }
  var states: String { place.folder.appending(path: "states/mine").path }
  /// The files of the states.
  var files: [String] { SystemFile.names(in: states).sorted() }

  init(_ backend: Backend = .signals, _ settings: Settings = Settings()) throws {
    (place, manifests, output, input) = (try Place(), try ManifestPlace(), try Output(), try Output())
    (self.backend, self.settings) = (backend, settings)
    let (hosted, socket) = try Self.open(place, manifests, backend, key, settings, log, changes)
    (running, self.socket) = ([hosted], socket)
    _ = fcntl(input.read, F_SETFL, 0)
    try mode("")
    try writeManifest(command(), in: manifests.path)
  }

  private static func open(
    _ place: Place, _ manifests: ManifestPlace, _ backend: Backend, _ key: String, _ settings: Settings,
    _ log: Told, _ changes: Told
  ) throws -> (Hosted, LineSocket) {
    let hosted = try Hosted(
      backend, key: key, catalog: ManifestCatalog(folders: [manifests.path]),
      answerGrace: settings.answerGrace,
      hibernatesAfter: settings.hibernatesAfter, states: place.folder.appending(path: "states/mine").path,
      hasSwap: settings.hasSwap, flush: settings.flush, log: { log.append($0) },
      changed: { for one in $0 { changes.append("\(one.name) \(one.state ?? "ended")") } })
    let host = hosted.host
    return (hosted, try HostSocket.open(at: place.path) { host })
  }

  func command() throws -> [String] {
    try protocolProgram(script, [place.folder.path] + pipes)
  }

  /// Where a program of another process finds this one's.
  var pipes: [String] { [output.written, input.read].map { "/proc/\(getpid())/fd/\($0)" } }

  func mode(_ words: String) throws {
    try Data(words.utf8).write(to: place.folder.appending(path: "mode"), options: .atomic)
  }

  func answer() { _ = write(input.written, "\n", 1) }

  func lines(_ count: Int) async throws -> [String] { try await output.lines(count) }

  /// Ends the host, and starts another in its place.
  func restartHost() throws {
    host.stop()
    (running, socket) = ([], nil)
    let (hosted, socket) = try Self.open(place, manifests, backend, key, settings, log, changes)
    (running, self.socket) = ([hosted], socket)
  }

  /// What is refused in the end, where it was told to wait.
  func refusal(of name: String = "app") async throws -> ProcessHostError? {
    var found: ProcessHostError?
    try await eventually("a refusal") {
      do {
        _ = try host.hibernate(name, isAgain: true)
      } catch {
        found = error as? ProcessHostError
      }
      return found != nil
    }
    return found
  }

  /// Starts it, and has it hibernated.
  func hibernate() async throws {
    try host.start("app")
    _ = try await lines(3)
    #expect(try host.hibernate("app") != nil)
    #expect(try await lines(2) == ["saveState", "willTerminate"])
    try await eventually("hibernation") { hosted.entry()?.state == "hibernated" }
  }
}

/// Storage that takes what it is to write when it is told to.
private final class HeldStorage: Sendable {
  private let told = Mutex<[[String]]>([])
  private let turn = DispatchSemaphore(value: 0)

  var paths: [[String]] { told.withLock { $0 } }
  var asked: Int { paths.count }
  func goOn() { turn.signal() }

  @Sendable func flush(_ paths: [String]) -> (path: String, error: Int32)? {
    told.withLock { $0.append(paths) }
    turn.wait()
    return SavedStates.flush(paths)
  }
}

/// Programs that are ended with their state saved, and started anew with it.
@Suite(.bounded, .enabled(if: Backends.python != nil, "there is no python3")) struct SavedStateTests {
  // R-LIFE-07
  @Test func pagingOutIsBetterThanASavedState() {
    typealias Way = HibernationWay
    func best(_ notPagedOut: String?, _ notSaved: String?) -> Way {
      Way.best(notPagedOut: notPagedOut, checkpoint: .unused, notSaved: notSaved)
    }
    #expect(best(nil, nil) == .pagedOut(notBetter: nil) && best(nil, "x") == .pagedOut(notBetter: nil))
    #expect(best("y", nil) == .savedState(notBetter: "y"))
    #expect(best("y", "x") == .pagedOut(notBetter: "its state is not saved: x"))
  }

  // R-MSG-01, R-MSG-03, R-LIFE-07
  @Test func aMessageStartsItAnewWithItsState() async throws {
    let saving = try Saving()
    try await saving.hibernate()
    let sent = try saving.host.notify("app", Message("letter"))
    let told = ["joined", "restoreState page 7", "didFinishLaunching message", "didEnterBackground"]
    #expect(try await saving.lines(6) == told + ["didReceiveMessage", "willSuspend"])
    #expect(try saving.host.reply(to: sent, of: "app").isAnswered)
    try await eventually("suspension") { saving.hosted.entry()?.state == "suspended" }
    #expect(saving.files == [])
    try await saving.hosted.end()
  }

  /// Its program would have heard the message for nothing.
  // R-MSG-01
  @Test func whoSavesItsStateHearsNoMessage() async throws {
    let saving = try Saving()
    try saving.mode("hold=saveState")
    try saving.host.start("app")
    _ = try await saving.lines(3)
    _ = try saving.host.hibernate("app")
    #expect(try await saving.lines(1) == ["saveState"])
    let error = #expect(throws: ProcessHostError.self) {
      _ = try saving.host.notify("app", Message("letter"))
    }
    #expect(error?.message.contains("is being ended with its state saved") == true)
    saving.answer()
    try await eventually("hibernation") { saving.hosted.entry()?.state == "hibernated" }
    try await saving.hosted.end()
  }

  // R-LIFE-07, R-LIFE-01
  @Test(arguments: Backends.usable) func whoSavesItsStateIsEndedAndStartsAnewWithIt(backend: Backend)
    async throws
  {
    let saving = try Saving(backend)
    let (host, hosted) = (saving.host, saving.hosted)
    let first = try #require(try host.start("app", foreground: true))
    #expect(try await saving.lines(3) == ["joined", "didFinishLaunching", "didBecomeActive"])
    #expect(try host.hibernate("app") != nil)
    let last = ["willResignActive", "didEnterBackground", "saveState", "willTerminate"]
    #expect(try await saving.lines(4) == last)
    try await eventually("hibernation") { try host.hibernate("app", isAgain: true) == nil }
    let entry = try #require(hosted.entry())
    #expect(entry.state == "hibernated" && entry.hibernatedBy == .savedState)
    #expect(
      entry.pids.isEmpty && entry.memoryBytes == 0 && entry.memoryBy == nil
        && ProcessStat(of: first)?.hasEnded != false)
    #expect(entry.notes.count == 1 && entry.notes.first?.contains("6 bytes is saved") == true)
    #expect(entry.notes.first?.contains("not paged out: there is no swap") == true, "\(entry.notes)")
    #expect(try String(contentsOfFile: saving.states + "/app.state", encoding: .utf8) == "page 7")
    let kept = try FileManager.default.attributesOfItem(atPath: saving.states + "/app.state")
    #expect(kept[.posixPermissions] as? Int == 0o600)
    // It is an app still, of which nothing runs.
    #expect(try host.hibernate("app") == nil && host.suspend("app") == nil)
    #expect(host.known().isEmpty && host.apps().count == 1)
    for refused in [{ try host.keep("app") }, { try host.warn("app") }] {
      let error = #expect(throws: ProcessHostError.self) { try refused() }
      #expect(error?.message.contains("it is hibernated, with its state saved") == true)
    }
    #expect(throws: ProcessHostError.self) { try host.launch(["/bin/true"], name: "app") }

    try host.bringForward("app")
    let again = ["joined", "restoreState page 7", "didFinishLaunching", "didBecomeActive"]
    #expect(try await saving.lines(4) == again)
    #expect(hosted.entry()?.state == "foreground" && hosted.entry()?.hibernatedBy == nil)
    #expect(hosted.entry()?.pids.isEmpty == false)
    // Taken once.
    try await eventually("its state is gone") { saving.files.isEmpty }
    let told = saving.changes.lines
    #expect(
      told == ["app foreground", "app background", "app terminated", "app hibernated", "app foreground"],
      "\(told)")
    try await hosted.end()
  }

  // R-LIFE-07
  @Test func whoIsResumedStartsInBackgroundAndWhoIsTerminatedHasNoState() async throws {
    let saving = try Saving()
    try await saving.hibernate()
    #expect(try HostRequest(.resume, name: "app").send(to: saving.place.path, within: .seconds(30)).ok)
    #expect(
      try await saving.lines(4) == [
        "joined", "restoreState page 7", "didFinishLaunching", "didEnterBackground",
      ])
    _ = try saving.host.hibernate("app")
    #expect(try await saving.lines(2) == ["saveState", "willTerminate"])
    try await eventually("hibernation") { saving.hosted.entry()?.state == "hibernated" }
    try saving.host.terminate("app")
    #expect(saving.hosted.entry() == nil && saving.files.isEmpty)
    try saving.host.start("app")
    #expect(try await saving.lines(3) == ["joined", "didFinishLaunching", "didEnterBackground"])
    try await saving.hosted.end()
  }

  // R-LIFE-07
  @Test func whoCanBePagedOutIsNotAskedForItsState() async throws {
    guard geteuid() == 0 else {
      return print("skipped: only with CAP_SYS_NICE another's memory is paged out")
    }
    let saving = try Saving(.signals, Saving.Settings(hasSwap: true))
    try saving.host.start("app")
    _ = try await saving.lines(3)
    _ = try saving.host.hibernate("app")
    #expect(try await saving.lines(1) == ["willSuspend"])
    try await eventually("hibernation") { try saving.host.hibernate("app", isAgain: true) == nil }
    #expect(saving.hosted.entry()?.hibernatedBy?.keepsProcesses == true)
    #expect(saving.hosted.entry()?.pids.count == 1)
    try await saving.hosted.end()
  }

  // R-LIFE-07
  @Test func whoHasNoManifestIsPagedOutAndToldWhy() async throws {
    let saving = try Saving()
    _ = try saving.host.launch(saving.command(), name: "app")
    _ = try await saving.lines(3)
    _ = try saving.host.hibernate("app")
    #expect(try await saving.lines(1) == ["willSuspend"])
    try await eventually("hibernation") { try saving.host.hibernate("app", isAgain: true) == nil }
    #expect(saving.hosted.entry()?.hibernatedBy?.keepsProcesses == true)
    try await eventually("the note") {
      saving.hosted.entry()?.notes.contains {
        $0.hasPrefix("hibernated: ") && $0.contains("not saved: no manifest says how it is started anew")
      } == true
    }
    try await saving.hosted.end()
  }

  // R-LIFE-07
  @Test(arguments: [
    ("silent=saveState", "it did not answer saveState within"), ("none", "it has saved no state"),
    ("large", "its state has 1048577 bytes: expected at most 1048576"),
  ]) func whoSavesNothingGoesOn(mode: String, why: String) async throws {
    let grace: Duration = mode.hasPrefix("silent") ? .seconds(2) : .seconds(60)
    let saving = try Saving(.signals, Saving.Settings(answerGrace: grace))
    let pid = try #require(try saving.host.start("app"))
    _ = try await saving.lines(3)
    try saving.mode(mode)
    #expect(try saving.host.hibernate("app") != nil)
    let refusal = try await saving.refusal()
    if case .notHibernated("app", let reason) = refusal?.code {
      #expect(reason.contains(why), "\(reason)")
    } else {
      Issue.record("\(refusal.debugDescription)")
    }
    #expect(saving.hosted.entry()?.state == "background" && saving.hosted.entry()?.pids == [pid])
    #expect(saving.files.isEmpty)
    try await saving.hosted.end()
  }

  // R-LIFE-07
  @Test func whatIsSavedIsOnStorageBeforeItsProgramEnds() async throws {
    let storage = HeldStorage()
    let saving = try Saving(.signals, Saving.Settings(flush: storage.flush))
    let (host, hosted) = (saving.host, saving.hosted)
    let pid = try #require(try host.start("app"))
    _ = try await saving.lines(3)
    _ = try host.hibernate("app")
    #expect(try await saving.lines(1) == ["saveState"])
    try await eventually("its writing") { storage.asked == 1 }
    // The file and its name, and all folders that were made for it.
    let folders = [saving.states, saving.place.folder.path, saving.place.folder.path + "/states"]
    #expect(storage.paths == [[saving.states + "/app.state"] + folders])
    #expect(saving.files == ["app.state"])
    // Nothing waits for it but the end of the program; the host does all else meanwhile.
    let waits = try host.hibernate("app", isAgain: true)
    #expect(waits?.reason == "its state is being written to storage")
    #expect(hosted.entry()?.state == "background" && hosted.entry()?.pids == [pid])
    #expect(!saving.output.comes(within: 0))
    storage.goOn()
    #expect(try await saving.lines(1) == ["willTerminate"])
    try await eventually("hibernation") { hosted.entry()?.hibernatedBy == .savedState }
    try host.terminate("app")
    try await hosted.end()
  }

  // R-LIFE-07
  @Test func whoIsToGoOnWhileItsStateIsWrittenIsNotEnded() async throws {
    let storage = HeldStorage()
    let saving = try Saving(.signals, Saving.Settings(flush: storage.flush))
    let pid = try #require(try saving.host.start("app"))
    _ = try await saving.lines(3)
    for (count, isSuspended) in [(1, false), (2, true)] {
      _ = try saving.host.hibernate("app")
      #expect(try await saving.lines(1) == ["saveState"])
      try await eventually("its writing") { storage.asked == count }
      if isSuspended { _ = try saving.host.suspend("app") } else { try saving.host.bringForward("app") }
      #expect(saving.files.isEmpty)
      storage.goOn()
      if isSuspended {
        #expect(try await saving.lines(1) == ["willSuspend"])
        try await eventually("suspension") { saving.hosted.entry()?.state == "suspended" }
      } else {
        #expect(try await saving.lines(2) == ["willEnterForeground", "didBecomeActive"])
        #expect(saving.hosted.entry()?.state == "foreground")
        _ = try saving.host.suspend("app")
        _ = try await saving.lines(3)
        try saving.host.resume("app")
        _ = try await saving.lines(1)
      }
      #expect(saving.hosted.entry()?.pids == [pid])
    }
    try await saving.hosted.end()
  }

  // R-LIFE-07
  @Test func whatStorageDoesNotTakeIsNoState() async throws {
    let saving = try Saving(.signals, Saving.Settings(flush: { ($0.last ?? "", EIO) }))
    let pid = try #require(try saving.host.start("app"))
    _ = try await saving.lines(3)
    _ = try saving.host.hibernate("app")
    #expect(try await saving.lines(1) == ["saveState"])
    let refusal = try await saving.refusal()
    let why = "the state of 'app' could not be written to storage ('\(saving.place.folder.path)/states')"
    #expect(refusal?.code == .system(why, EIO), "\(refusal.debugDescription)")
    #expect(saving.hosted.entry()?.state == "background" && saving.hosted.entry()?.pids == [pid])
    #expect(saving.hosted.entry()?.notes.contains { $0.contains(why) } == true)
    #expect(saving.files.isEmpty)
    try await saving.hosted.end()
  }

  @Test func filesAndFoldersAreWrittenAndWhatIsNotThereIsNamed() throws {
    let place = try Place()
    let (file, none) = (place.folder.path + "/a.state", place.folder.path + "/none")
    try Data("x".utf8).write(to: URL(filePath: file))
    #expect(SavedStates.flush([file, place.folder.path]) == nil)
    let failed = SavedStates.flush([file, none, place.folder.path])
    #expect(failed?.path == none && failed?.error == ENOENT)
  }

  // R-LIFE-07
  @Test func whoDiesWhileItSavesIsNotHibernated() async throws {
    let saving = try Saving()
    try saving.host.start("app")
    _ = try await saving.lines(3)
    try saving.mode("die=saveState")
    _ = try saving.host.hibernate("app")
    let refusal = try await saving.refusal()
    if case .notHibernated = refusal?.code {} else { Issue.record("\(refusal.debugDescription)") }
    try await eventually("its end") { saving.hosted.entry() == nil }
    #expect(saving.files.isEmpty)
    try await saving.hosted.end()
  }

  // R-LIFE-07
  @Test func whoIsToGoOnMeanwhileIsNotEnded() async throws {
    let saving = try Saving()
    let (host, hosted) = (saving.host, saving.hosted)
    let pid = try #require(try host.start("app"))
    _ = try await saving.lines(3)
    try saving.mode("hold=saveState")
    #expect(try host.hibernate("app")?.reason == "it has not answered saveState yet")
    #expect(try await saving.lines(1) == ["saveState"])
    try host.resume("app")
    let refusal = #expect(throws: ProcessHostError.self) { try host.hibernate("app", isAgain: true) }
    #expect(refusal?.code == .notHibernated("app", "it was told to go on before its state was saved"))
    saving.answer()
    try await eventually("what it has written is dropped") { saving.files.isEmpty }
    #expect(hosted.entry()?.state == "background" && hosted.entry()?.pids == [pid])
    // It is asked anew when it is to be hibernated again.
    try saving.mode("")
    _ = try host.hibernate("app")
    #expect(try await saving.lines(2) == ["saveState", "willTerminate"])
    try await eventually("hibernation") { hosted.entry()?.state == "hibernated" }
    try host.terminate("app")
    try await hosted.end()
  }

  // R-LIFE-07, R-MEM-08
  @Test(arguments: Backends.usable) func whoIsSuspendedGoesOnToSaveAndIsStoppedAgainElse(backend: Backend)
    async throws
  {
    let saving = try Saving(backend)
    let (host, hosted) = (saving.host, saving.hosted)
    try host.start("app")
    _ = try await saving.lines(3)
    _ = try host.suspend("app")
    try await eventually("suspension") { hosted.entry()?.state == "suspended" }
    try saving.mode("none")
    _ = try host.hibernate("app")
    #expect(try await saving.lines(4) == ["willSuspend", "didResume", "saveState", "willSuspend"])
    #expect(try await saving.refusal()?.message.contains("it has saved no state") == true)
    try await eventually("suspension") { hosted.entry()?.state == "suspended" }
    try saving.mode("")
    _ = try host.hibernate("app")
    #expect(try await saving.lines(3) == ["didResume", "saveState", "willTerminate"])
    try await eventually("hibernation") { hosted.entry()?.hibernatedBy == .savedState }
    try host.terminate("app")
    try await hosted.end()
  }

  // R-MEM-08
  @Test func whoIsNotUsedForLongSavesItsState() async throws {
    let saving = try Saving(.signals, Saving.Settings(hibernatesAfter: .milliseconds(50)))
    try saving.host.start("app")
    _ = try await saving.lines(3)
    _ = try saving.host.suspend("app")
    #expect(try await saving.lines(4) == ["willSuspend", "didResume", "saveState", "willTerminate"])
    try await eventually("hibernation") { saving.hosted.entry()?.hibernatedBy == .savedState }
    try saving.host.terminate("app")
    try await saving.hosted.end()
  }

  // R-LIFE-07
  @Test func whoDiesBeforeItTookItsStateIsStartedOnceMoreAndKeepsIt() async throws {
    let saving = try Saving()
    try await saving.hibernate()
    try saving.mode("die=restoreState")
    try saving.host.resume("app")
    let twice = ["joined", "restoreState page 7", "joined", "restoreState page 7"]
    #expect(try await saving.lines(4) == twice)
    try await eventually("its end") {
      saving.hosted.entry()?.notes.contains { $0.contains("it has ended before it took it") } == true
    }
    #expect(saving.hosted.entry()?.state == "hibernated" && saving.hosted.entry()?.pids == [])
    #expect(saving.log.lines.filter { $0.contains("started once more") }.count == 1)
    // Nobody has asked since.
    #expect(!saving.output.comes(within: 0))
    try saving.mode("")
    try saving.host.resume("app")
    #expect(try await saving.lines(2) == ["joined", "restoreState page 7"])
    try await eventually("its state is gone") { saving.files.isEmpty }
    try await saving.hosted.end()
  }

  // R-LIFE-07, R-LIFE-10
  @Test func whoIsStartedOnceMoreHearsThatNobodyHasAsked() async throws {
    let saving = try Saving()
    try await saving.hibernate()
    try saving.mode("die=restoreState once")
    try saving.host.resume("app")
    let first = ["joined", "restoreState page 7"]
    #expect(
      try await saving.lines(6) == first + first + ["didFinishLaunching system", "didEnterBackground"])
    try await saving.hosted.end()
  }

  // R-LIFE-07
  @Test func whoDoesNotWantItsStateIsNotStartedByItself() async throws {
    let saving = try Saving()
    try await saving.hibernate()
    try saving.mode("plain die=didFinishLaunching")
    try saving.host.resume("app")
    #expect(try await saving.lines(2) == ["joined", "didFinishLaunching"])
    try await eventually("its end") {
      saving.hosted.entry()?.notes.contains { $0.contains("it has ended before it took it") } == true
    }
    #expect(saving.hosted.entry()?.pids == [] && saving.files == ["app.due"] && saving.log.lines.isEmpty)
    try saving.host.terminate("app")
    try await saving.hosted.end()
  }

  // R-LIFE-07
  @Test func theNextHostHasTheState() async throws {
    let saving = try Saving()
    try await saving.hibernate()
    try saving.restartHost()
    #expect(
      saving.hosted.entry()?.state == "hibernated" && saving.hosted.entry()?.hibernatedBy == .savedState)
    try saving.host.resume("app")
    #expect(try await saving.lines(2) == ["joined", "restoreState page 7"])
    try await eventually("its state is gone") { saving.files.isEmpty }
    try await saving.hosted.end()
  }

  // R-LIFE-07
  @Test(arguments: Backends.usable) func theNextHostEndsWhoHasSavedItsState(backend: Backend) async throws {
    let saving = try Saving(backend)
    try saving.host.start("app")
    _ = try await saving.lines(3)
    try saving.mode("hold=willTerminate")
    _ = try saving.host.hibernate("app")
    #expect(try await saving.lines(2) == ["saveState", "willTerminate"])
    #expect(saving.files == ["app.state"])
    try saving.restartHost()
    try await eventually("hibernation") { saving.hosted.entry()?.state == "hibernated" }
    #expect(saving.hosted.entry()?.pids == [])
    saving.answer()  // for nobody: so that no line is left over
    try saving.host.terminate("app")
    try await saving.hosted.end()
  }

  @Test func statesAreInAFolderOfTheUsersOwn() {
    func folder(_ user: UInt32, _ environment: [String: String]) -> String? {
      HostSocket.stateFolder(of: "/x", user: user, environment: environment)
    }
    let key = HostSocket.key(of: "/x")
    #expect(folder(0, [:]) == "/var/lib/opportune/" + key)
    #expect(folder(7, ["XDG_STATE_HOME": "/s", "HOME": "/h"]) == "/s/opportune/" + key)
    #expect(folder(7, ["XDG_STATE_HOME": "s", "HOME": "/h"]) == "/h/.local/state/opportune/" + key)
    #expect(folder(7, [:]) == nil)
  }

  /// A program that is written with the library.
  // R-LIFE-07
  @Test func aSwiftProgramGivesAndTakesItsState() async throws {
    let saving = try Saving()
    let path = try OpportuneHostTests.command().deletingLastPathComponent().appending(path: "Cooperate").path
    try saving.manifests.script(
      "OPPORTUNE_SOCKET=\(saving.place.path) exec '\(path)' > \(saving.pipes[0])", saving.manifests.path,
      name: "reader")
    try saving.host.start("reader")
    #expect(Set(try await saving.lines(3)) == ["is the app 'reader'", "launched", "is in background: saves"])
    _ = try saving.host.hibernate("reader")
    #expect(try await saving.lines(1) == ["ends: saves"])
    try await eventually("hibernation") { saving.hosted.entry("reader")?.hibernatedBy == .savedState }
    try saving.host.bringForward("reader")
    let lines = try await saving.lines(4)
    #expect(lines.filter { $0 != "is the app 'reader'" } == ["was at page 7", "launched", "is in front"])
    try await eventually("its state is gone") { saving.files.isEmpty }
    try await saving.hosted.end()
  }

  // R-LIFE-07
  @Test(.enabled(if: CooperateTests.compiler != nil, "there is no C compiler"))
  func aCProgramGivesAndTakesItsState() async throws {
    let saving = try Saving()
    let path = try CooperateTests.buildInC(in: saving.place)
    try saving.manifests.script(
      "cd \(saving.place.folder.path); OPPORTUNE_SOCKET=\(saving.place.path) exec '\(path)' > \(saving.pipes[0])",
      saving.manifests.path, name: "counter")
    try saving.host.start("counter")
    #expect(try await saving.lines(1) == ["in background"])
    _ = try saving.host.hibernate("counter")
    #expect(try await saving.lines(1) == ["ends"])
    try await eventually("hibernation") { saving.hosted.entry("counter")?.hibernatedBy == .savedState }
    // It counts to ten before it may be ended.
    let state = try Data(contentsOf: URL(filePath: saving.states + "/counter.state"))
    let count = state.withUnsafeBytes { $0.loadUnaligned(as: Int.self) }
    #expect(state.count == MemoryLayout<Int>.size && count >= 10)
    try saving.host.resume("counter")
    #expect(try await saving.lines(2) == ["was at \(count)", "in background"])
    try await eventually("its state is gone") { saving.files.isEmpty }
    try await saving.hosted.end()
  }
}
