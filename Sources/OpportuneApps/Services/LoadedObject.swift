import Glibc

/// Determines the file from which loaded code comes. (R-AUD-07)
///
/// It finds the file whose mapping contains an address. It cannot see through calls: code that approved code
/// calls counts as approved. Code that was generated at run time belongs to no file.
package enum LoadedObject {
  /// The path of the mapped file that contains `address`, as named by the kernel; `nil` for anonymous memory.
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

  /// The file that contains the code of an audio callback.
  static func file(of render: @escaping @Sendable (AudioStream.Frame) -> Void) -> String? {
    // A closure's first word is the address of its code. Stored in a struct, it is not wrapped in a thunk.
    struct Held { let render: @Sendable (AudioStream.Frame) -> Void }
    return withUnsafeBytes(of: Held(render: render)) { file(holding: $0.load(as: UnsafeRawPointer.self)) }
  }
}
