/// The version and build of the library.
public enum OpportuneBuild {
  /// The version as in CHANGELOG.md, by Semantic Versioning; `-dev` precedes that version.
  public static let version = "0.1.0-dev"

  /// Whether it was built without optimisation, and with assertions: its times are meaningless then.
  public static var isDebug: Bool {
    #if DEBUG
      true
    #else
      false
    #endif
  }

  /// Version and build, for people.
  public static var description: String { "\(version) (\(isDebug ? "debug" : "release") build)" }
}
