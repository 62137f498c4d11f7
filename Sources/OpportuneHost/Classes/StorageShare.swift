internal import Glibc

/// What the kernel makes of an app's requests to block devices: in background they have the least weight and
/// the idle class, by a write each to the app's own control group of version 2.
///
/// Used by one thread at a time.
final class StorageShare {
  private let folder: String
  private let settings: [Setting]

  private struct Setting {
    let file: String
    let background: String
    let foreground: String
  }

  /// Each is there on some kernels alone, and counts where the device is scheduled so: the class with
  /// mq-deadline and BFQ, the first weight with io.cost.qos, the second with BFQ.
  private static let known = [
    Setting(file: idleClass, background: "idle", foreground: "no-change"),
    Setting(file: "io.weight", background: "1", foreground: "100"),
    Setting(file: "io.bfq.weight", background: "1", foreground: "100"),
  ]
  private static let idleClass = "io.prio.class"

  /// Whether all threads have the idle class by the group, so that they need none of their own.
  let hasClass: Bool

  /// - Parameters:
  ///   - key: of the host.
  ///   - name: of the app.
  ///   - group: the app's.
  init?(key: String, name: String, group: ControlGroup) {
    let made = ControllerGroup.make(
      "io", files: ("io.max", ""), key: key, name: name, group: group, root: { nil })
    guard let made else { return nil }
    folder = made.path
    settings = Self.known.filter { SystemFile.exists(made.path + "/" + $0.file) }
    hasClass = settings.contains { $0.file == Self.idleClass }
  }

  /// - Returns: 0, or the number of the first error.
  func set(isBackground: Bool) -> Int32 {
    var first: Int32 = 0
    for one in settings {
      let error = SystemFile.write(
        isBackground ? one.background : one.foreground, to: folder + "/" + one.file)
      if first == 0 { first = error }
    }
    return first
  }
}
