internal import COpportuneHost
internal import Glibc

extension ProgramFile {
  /// Starts a program as this process's child.
  ///
  /// - Parameters:
  ///   - folder: where it starts; `nil`: as this process.
  ///   - group: a descriptor of the folder of the control group in which it is born; -1: as this process.
  ///   - entrance: a descriptor to which it writes what has it enter a group of version 1; -1: none.
  ///   - descriptors: its standard ones; -1: as this process.
  ///   - starter: the process that does it; `nil`: this one.
  /// - Returns: its pid, or the negative number of the error, its descriptor, and what keeps the starter from
  ///   starting anything.
  static func start(
    _ path: String, _ arguments: [String], environment: [String], folder: String?, group: Int32,
    entrance: Int32, descriptors: [Int32], by starter: ProgramStarter?
  ) -> (pid: pid_t, pidfd: Int32, lack: ProgramStarter.Lack?) {
    var pidfd: Int32 = -1
    let (pid, lack) = withArray(arguments) { arguments in
      withArray(environment) { environment in
        path.withCString { file in
          withCString(folder) { start in
            let three = descriptors + [-1, -1, -1]
            var program = opp_host_program(
              path: file, argv: arguments, envp: environment, folder: start, group: group,
              entrance: entrance, descriptors: (three[0], three[1], three[2]))
            return starter?.start(&program, &pidfd) ?? (opp_host_start(&program, &pidfd), nil)
          }
        }
      }
    }
    return (pid, pidfd, lack)
  }
}

func ownEnvironment() -> [String] {
  var result: [String] = []
  var next = environ
  while let entry = next.pointee {
    result.append(String(cString: entry))
    next += 1
  }
  return result
}

private func withCString<Result>(_ text: String?, _ body: (UnsafePointer<CChar>?) -> Result) -> Result {
  guard let text else { return body(nil) }
  return text.withCString { body($0) }
}

/// An array of C strings that ends with a null pointer.
private func withArray<Result>(
  _ strings: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Result
) -> Result {
  var pointers = strings.map { strdup($0) } + [nil]
  defer { for pointer in pointers { free(pointer) } }
  return pointers.withUnsafeMutableBufferPointer { buffer in
    guard let base = buffer.baseAddress else { preconditionFailure("there is a null pointer at least") }
    return body(base)
  }
}
