import Glibc

/// Which file a piece of loaded code comes from. (R-AUD-07)
///
/// It sees the file whose mapping holds an address. It cannot see through a call: approved code that calls
/// other code is approved, and so is whatever the approved code is told to do. Code that was made at run time
/// belongs to no file.
package enum LoadedObject {
  /// The path of the mapped file that holds `address`, as the kernel names it; `nil` for memory of no file.
  package static func file(holding address: UnsafeRawPointer) -> String? {
    guard let maps = fopen("/proc/self/maps", "r") else { return nil }
    defer { fclose(maps) }
    let wanted = UInt(bitPattern: address)
    var line: UnsafeMutablePointer<CChar>?
    var capacity = 0
    defer { free(line) }
    while getline(&line, &capacity, maps) > 0 {
      guard let line else { break }
      let text = String(cString: line)
      let fields = text.split(separator: " ", maxSplits: 5, omittingEmptySubsequences: true)
      let range = fields.first?.split(separator: "-").compactMap { UInt($0, radix: 16) } ?? []
      guard range.count == 2, range[0] <= wanted, wanted < range[1] else { continue }
      guard fields.count == 6 else { return nil }
      let path = fields[5].drop { $0 == " " }.prefix { $0 != "\n" }
      return path.hasPrefix("/") ? String(path) : nil
    }
    return nil
  }

  /// The file that holds the code of a callback for audio.
  static func file(of render: @escaping @Sendable (AudioStream.Frame) -> Void) -> String? {
    // A closure is the address of its code, then what it has captured; on its own it would be wrapped on the
    // way.
    struct Held { let render: @Sendable (AudioStream.Frame) -> Void }
    return withUnsafeBytes(of: Held(render: render)) { file(holding: $0.load(as: UnsafeRawPointer.self)) }
  }
}
