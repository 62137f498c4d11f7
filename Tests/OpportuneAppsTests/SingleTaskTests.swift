import Foundation
import OpportuneApps
import TestSupport
import Testing

@Suite(.bounded) struct SingleTaskTests {
  // R-SAMP-01, R-SAMP-02
  @Test func exactlyOneTaskIsInTheListAtEveryAddition() throws {
    var rig = try Rig()
    var list = SingleTask()
    try rig.leave()
    for _ in 0..<100 {
      try rig.does(.beginTask(.other))
      let task = try #require(rig.tasks().last)
      for other in list.add(task) { try rig.does(.endTask(other)) }
      #expect(list.tasks == [task])
      #expect(rig.host.system.view(of: rig.app)?.openTasks == [task])
      #expect(rig.state() == .background)
    }
    let ended = list.add(.invalid)
    #expect(ended == [] && list.tasks.count == 1)
    let (none, one) = (list.remove(.invalid), list.remove(list.current))
    #expect(!none && one && list.current == .invalid)
  }

  // R-SAMP-08
  @Test func aTimerCarriesTheLogicOfOtherWork() throws {
    var sampler = try Sampler(interval: .seconds(60), bound: .seconds(10), at: .zero)
    var worked: [Double] = []
    var now = Moment.zero
    while now < .seconds(300) {
      worked.append(now.seconds)
      if worked.count.isMultiple(of: 2) { sampler.sampled(at: now + .seconds(2)) }  // has it early
      while sampler.phase == .working {
        now = try #require(sampler.next)
        sampler.fired(at: now)
      }
      now = try #require(sampler.next)
      sampler.fired(at: now)
    }
    #expect(worked == [0, 70, 132, 202, 264])
    #expect(throws: PolicyError.self) { try Sampler(interval: .zero, at: .zero) }
  }

  // R-SAMP-10
  @Test func onlyAudioLocationAndFetchRunPastTheirTime() throws {
    for mode in [nil, Manifest.Mode.audio, .location, .fetch] {
      var rig = try Rig([manifest("app", mode.map { [$0] } ?? [])])
      try rig.does(.launch)
      if mode == .audio { try rig.does(.audioBegan(.play)) }
      if mode == .location { try rig.does(.trackingBegan) }
      try rig.does(.beginTask(.other))
      try rig.does(.leave)
      try rig.wait(900)
      let runs = rig.state() == .background
      #expect(runs == (mode != nil), "\(String(describing: mode))")
    }
  }

  // R-PWR-01
  @Test func powerIsReadFromTheKernelsFolder() throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("power-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: folder) }
    func supply(_ name: String, _ files: [String: String]) throws {
      let place = folder.appendingPathComponent(name)
      try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
      for (file, text) in files { try Data((text + "\n").utf8).write(to: place.appendingPathComponent(file)) }
    }
    let power = SystemPower(path: folder.path)
    #expect(power.read() == .mains)  // no folder at all: a server
    try supply("hidpp_battery_0", ["type": "Battery", "scope": "Device", "status": "Discharging"])
    #expect(power.read() == .mains)
    try supply("BAT0", ["type": "Battery", "status": "Discharging"])
    #expect(power.read() == .battery)
    try supply("AC", ["type": "Mains", "online": "1"])
    #expect(power.read() == .mains)
    try supply("AC", ["type": "Mains", "online": "0"])
    #expect(power.read() == .battery)
    for (type, status, runsOn) in [
      ("Battery", "Charging", .mains), ("Battery", "Full", .mains), ("Battery", "Not charging", .battery),
      ("UPS", "Discharging", .battery),
    ] as [(String, String, PowerSupply)] {
      try supply("BAT0", ["type": type, "status": status])
      #expect(power.read() == runsOn, "\(type) \(status)")
    }
  }
}
