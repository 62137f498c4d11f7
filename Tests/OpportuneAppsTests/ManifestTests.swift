import Foundation
import OpportuneApps
import TestSupport
import Testing

@Suite(.bounded) struct ManifestTests {
  private func plist(_ body: String) -> Data {
    Data(
      """
      <?xml version="1.0" encoding="UTF-8"?>
      <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
      <plist version="1.0"><dict><key>CFBundleIdentifier</key><string>org.example.app</string>\(body)</dict></plist>
      """.utf8)
  }

  // R-MAN-01, R-MAN-02, R-MAN-04, R-MAN-07
  @Test func anInfoPlistIsReadAsItIs() throws {
    let result = try ManifestReader.read(
      plist(
        """
        <key>UIBackgroundModes</key><array><string>audio</string><string>location</string><string>fetch</string>
          <string>bluetooth-central</string></array>
        <key>UIApplicationExitsOnSuspend</key><true/>
        <key>NSLocationWhenInUseUsageDescription</key><string>To show the way</string>
        <key>CFBundleVersion</key><string>1</string>
        """))
    #expect(result.manifest.identifier == "org.example.app")
    #expect(result.manifest.backgroundModes == [.audio, .location, .fetch])
    #expect(result.manifest.exitsOnSuspend)
    #expect(result.manifest.usageDescriptions == ["NSLocationWhenInUseUsageDescription": "To show the way"])
    #expect(result.unknownKeys == ["CFBundleVersion"])
    #expect(result.unknownModes == ["bluetooth-central"])
  }

  // R-MAN-07
  @Test(arguments: [
    String(repeating: "<array>", count: 100_000) + String(repeating: "</array>", count: 100_000), "<array>",
    "",
    "<string>a</string>",
  ])
  func aListThatIsNoManifestIsRefused(body: String) {
    #expect(throws: ManifestError.self) {
      try ManifestReader.read(Data("<plist version=\"1.0\">\(body)</plist>".utf8))
    }
  }

  // R-MAN-07
  @Test func aListOfTheOldStyleIsNone() {
    let error = #expect(throws: ManifestError.self) {
      try ManifestReader.read(Data(#"CFBundleIdentifier = "a"; UIBackgroundModes = ( audio );"#.utf8))
    }
    #expect(error?.description.hasPrefix("manifest: neither a property list nor JSON: ") == true)
  }

  // R-MAN-07
  @Test func binaryPropertyListsAndJSONAreTheSame() throws {
    let json = #"{"CFBundleIdentifier": "a", "UIBackgroundModes": ["voip"], "OpportuneTaskSeconds": 300}"#
    let fromJSON = try ManifestReader.read(Data(json.utf8))
    let binary = try PropertyListSerialization.data(
      fromPropertyList: [
        "CFBundleIdentifier": "a", "UIBackgroundModes": ["voip"], "OpportuneTaskSeconds": 300,
      ],
      format: .binary, options: 0)
    #expect(try ManifestReader.read(binary) == fromJSON)
    #expect(fromJSON.manifest.taskTime == .seconds(300))
  }

  // R-MAN-05
  @Test func multitaskingIsOnAndModesAreOffByDefault() throws {
    let manifest = try ManifestReader.read(plist("")).manifest
    #expect(manifest.backgroundModes.isEmpty && !manifest.exitsOnSuspend)
  }

  // R-MAN-07
  @Test func wrongTypesNameThePathOfTheirKey() {
    let cases: [(String, String)] = [
      ("<key>UIBackgroundModes</key><string>audio</string>", "UIBackgroundModes"),
      (
        "<key>UIBackgroundModes</key><array><string>audio</string><integer>3</integer></array>",
        "UIBackgroundModes[1]"
      ),
      ("<key>UIApplicationExitsOnSuspend</key><string>YES</string>", "UIApplicationExitsOnSuspend"),
      ("<key>OpportuneTaskSeconds</key><real>-1</real>", "OpportuneTaskSeconds"),
    ]
    for (body, path) in cases {
      let error = #expect(throws: ManifestError.self) { try ManifestReader.read(plist(body)) }
      guard case .value(path, _, _)? = error?.code else {
        Issue.record("\(body): \(String(describing: error))")
        continue
      }
    }
    #expect(throws: ManifestError(.missing(path: "CFBundleIdentifier"))) {
      try ManifestReader.read(Data("{}".utf8))
    }
    for text in ["", "{", "<plist>", "\u{0}\u{1}", "[1]"] {
      #expect(throws: ManifestError.self) { try ManifestReader.read(Data(text.utf8)) }
    }
  }

  // R-MAN-06
  @Test func theUserIsStrongerThanTheManifest() {
    var settings = UserSettings()
    settings.deniedModes = [.audio]
    settings.allowedModes = [.fetch]
    settings.exitsOnSuspend = true
    let result = manifest("app", [.audio, .voip]).applying(settings)
    #expect(result.backgroundModes == [.voip, .fetch] && result.exitsOnSuspend)
  }

  // R-MAN-03
  @Test func locationEventsNeedNoMode() throws {
    var rig = try Rig()
    try rig.suspend()
    try rig.does(.locationEvent)
    #expect(rig.state() == .background)
    #expect(rig.count(.locationEvent) == 1)
    // To go on in background it does.
    for modes in [[], [.location]] as [Set<Manifest.Mode>] {
      var rig = try Rig([manifest("tracker", modes)])
      try rig.does(.launch)
      try rig.does(.trackingBegan)
      try rig.does(.leave)
      try rig.wait(3600)
      #expect(rig.state() == (modes.isEmpty ? .suspended : .background))
    }
  }

  // R-SYS-02
  @Test func settingsThatMakeNoSenseAreNamed() {
    let wrong: [(String, (inout AppsPolicy) -> Void)] = [
      ("grace", { $0.grace = .seconds(-1) }), ("callbackLimit", { $0.callbackLimit = .zero }),
      ("tasks.wallClock", { $0.tasks.wallClock = .zero }),
      ("maximumForeground", { $0.maximumForeground = 0 }),
      ("audio.maximum", { $0.audio.maximum = -1 }),
      ("fetch.shortest", { $0.fetch.shortest = .seconds(1_000_000) }),
      ("messages.delivery", { $0.messages.delivery = .batch(.zero) }),
    ]
    for (setting, change) in wrong {
      var policy = AppsPolicy()
      change(&policy)
      #expect(throws: PolicyError.self) { try policy.validate() }
      do { try policy.validate() } catch { #expect(error.code == .outOfRange(setting: setting)) }
    }
    #expect(throws: Never.self) { try AppsPolicy().validate() }
  }
}
