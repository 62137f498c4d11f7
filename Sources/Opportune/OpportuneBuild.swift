/// Which Opportune this is.
public enum OpportuneBuild {
  /// As in CHANGELOG.md, by Semantic Versioning; `-dev` is what comes before that version.
  public static let version = "0.1.0-dev"

  /// Whether it was built without optimisation, and with assertions: its times say nothing then.
  public static var isDebug: Bool {
    #if DEBUG
      true
    #else
      false
    #endif
  }

  /// Both, for people.
  public static var description: String { "\(version) (\(isDebug ? "debug" : "release") build)" }
}
