import Glibc
import OpportuneBase
import OpportuneFuzz
import OpportuneProperties

enum Driver {
  static let target: PropertyTarget = {
    let name = getenv("OPPORTUNE_TARGET").map { String(cString: $0) } ?? ""
    let targets = FuzzTargets.properties.compactMap { $0 as? PropertyTarget }
    guard let target = targets.first(where: { $0.name == name }) else {
      say(
        "'\(name)' is not a target; above the core there are \(targets.map(\.name).joined(separator: ", "))\n"
      )
      exit(2)
    }
    return target
  }()
}

/// Into a corpus that is empty, what the random driver would begin with: libFuzzer alone takes long to find
/// the form.
func writeFirstInputs(to folder: String, count: Int) {
  guard let directory = opendir(folder) else { return }
  defer { closedir(directory) }
  while let entry = readdir(directory) {
    if entry.pointee.d_name.0 != CChar(bitPattern: UInt8(ascii: ".")) { return }
  }
  for number in 0..<count {
    var generator = SplitMix64(seed: 1, number: UInt64(number))
    let input = Driver.target.property.draw(&generator)
    guard let file = fopen("\(folder)/drawn-\(number)", "w") else { return }
    fwrite(input, 1, input.count, file)
    fclose(file)
  }
}

func runOnce(_ bytes: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
  let input = Array(UnsafeBufferPointer(start: bytes, count: size))
  guard let finding = Driver.target.finding(of: input, milliseconds: 20_000) else { return 0 }
  say(
    """
    \(finding.timeline)

    \(finding.target): \(finding.message)
    Run it again with:  opportune fuzz --replay /dev/stdin <<'END'
    \(finding.example)END

    """)
  _exit(77)  // the text says more than the bytes that libFuzzer would keep
}

private func say(_ text: String) {
  let bytes = Array(text.utf8)
  _ = write(STDERR_FILENO, bytes, bytes.count)
}
