import Foundation
import TestSupport
import Testing

@testable import OpportuneLocation

// R-AUTH-10, R-AUTH-24
@Suite(.bounded) struct LocationSettingsTests {
  private func read(_ text: String) throws -> LocationSettings {
    try LocationSettings(reading: Data(text.utf8))
  }

  @Test func whatIsWrittenIsReadAgain() throws {
    var settings = LocationSettings()
    settings.isEnabled = false
    settings.apps = [
      "maps": .allowed(.always), "weather \"now\"\n": .allowed(.whenInUse), "spy": .denied,
      "new": .notDetermined,
    ]
    #expect(try read(settings.json()) == settings)
    #expect(try read(LocationSettings().json()) == LocationSettings())
    #expect(try read("{}") == LocationSettings() && LocationSettings().isEnabled)
  }

  // R-AUTH-01
  @Test func furtherTypesHaveWordsToo() throws {
    let fences = AuthorizationType(
      name: "fences only", usageKey: "key", dialog: "", whenInUse: [.regions], whenNotInUse: [.regions])
    let types = AuthorizationStatus.standardTypes + [fences]
    #expect(
      AuthorizationStatus.words(of: types) == [
        "always", "whenInUse", "fencesOnly", "denied", "notDetermined",
      ])
    let text = Data("{\"apps\":{\"maps\":{\"authorization\":\"fencesOnly\"}}}".utf8)
    #expect(try LocationSettings(reading: text, types: types).apps == ["maps": .allowed(fences)])
    #expect(throws: LocationSettingsError.self) { try LocationSettings(reading: text) }
  }

  @Test(arguments: [
    ("", "not JSON"), ("{", "not JSON"), ("[]", "'/' is an array of 0, expected an object"),
    ("{\"enabled\":1}", "'enabled' is the number 1.0, expected true or false"),
    ("{\"enabled\":\"no\"}", "'enabled' is the string \"no\", expected true or false"),
    ("{\"enable\":true}", "'enable' is an unknown key, expected one of 'apps' and 'enabled'"),
    ("{\"apps\":[]}", "'apps' is an array of 0, expected an object"),
    ("{\"apps\":{\"a.b\":\"always\"}}", "'apps[\"a.b\"]' is the string \"always\", expected an object"),
    (
      "{\"apps\":{\"a.b\":{}}}",
      "'apps[\"a.b\"].authorization' is missing, expected one of \"always\", \"whenInUse\""
    ),
    (
      "{\"apps\":{\"a\":{\"authorization\":\"maybe\"}}}",
      "'apps[\"a\"].authorization' is the string \"maybe\""
    ),
    (
      "{\"apps\":{\"a.b\":{\"authorization\":true}}}",
      "'apps[\"a.b\"].authorization' is the boolean true, expected"
    ),
    (
      "{\"apps\":{\"a\":{\"authorization\":\"always\",\"until\":3}}}", "'apps[\"a\"].until' is an unknown key"
    ),
  ]) func whatIsWrongIsNamedByThePathOfItsKey(text: String, part: String) throws {
    let error = try #require(#expect(throws: LocationSettingsError.self) { try read(text) })
    #expect(error.description.contains(part), "\(error)")
  }
}
