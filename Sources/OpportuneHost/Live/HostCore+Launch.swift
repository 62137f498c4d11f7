internal import COpportuneHost
internal import Glibc

extension HostCore {
  /// Starts a program; with control groups it is born in its own.
  func launch(
    _ command: [String], name: String, foreground: Bool, descriptors: [Int32]
  ) throws(ProcessHostError) -> Int32 {
    guard let path = command.first, !command.contains(where: { $0.utf8.contains(0) }) else {
      throw ProcessHostError(.program(command.first ?? "", EINVAL))
    }
    let name = try freeName(name, isExact: true)
    let mark = maker.mark(of: name)
    let group = try maker.tree?.group(name)
    let folder = group.map { open($0.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) } ?? -1
    defer { if folder >= 0 { close(folder) } }
    var pidfd: Int32 = -1
    let pid = withArray(command) { arguments in
      withArray(environment(mark)) { environment in
        path.withCString { file in
          let three = descriptors + [-1, -1, -1]
          var program = opp_host_program(
            path: file, argv: arguments, envp: environment, folder: nil, group: folder,
            descriptors: (three[0], three[1], three[2]))
          return opp_host_start(&program, &pidfd)
        }
      }
    }
    guard pid > 0 else {
      group?.remove()
      throw ProcessHostError(.program(path, -pid))
    }
    var made: any ProcessGroup = SignalledGroup(mark: mark, warden: maker.warden)
    // It may have ended by now, and left others.
    if let group { made = group } else { try? made.adopt(pid) }
    try begin(name, group: made, first: pid, foreground: foreground, child: pidfd, notes: [])
    return pid
  }

  private func environment(_ mark: String) -> [String] {
    var result: [String] = []
    var next = environ
    while let entry = next.pointee {
      let text = String(cString: entry)
      if !text.hasPrefix(SignalledGroup.variable + "=") { result.append(text) }
      next += 1
    }
    return result + ["\(SignalledGroup.variable)=\(mark)"]
  }
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
