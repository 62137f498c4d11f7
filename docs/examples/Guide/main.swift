import Foundation

/// The programs of docs/guide, a file each: `swift run Guide caches` runs one, without a name all of them.
let programs: [(name: String, run: @Sendable () async throws -> Void)] = [
  ("background", background), ("sharing", sharing), ("files", files), ("caches", caches),
  ("testing", testing), ("suspend", suspend), ("reachable", reachable),
  ("reading", reading), ("containers", containers), ("locations", locations),
  ("policy", policy), ("less", less),
]

let names = CommandLine.arguments.dropFirst()
if let unknown = names.first(where: { name in !programs.contains { $0.name == name } }) {
  FileHandle.standardError.write(
    Data("Guide: no program \"\(unknown)\", but \(programs.map(\.name).joined(separator: ", "))\n".utf8))
  exit(64)
}
for program in programs where names.isEmpty || names.contains(program.name) {
  print("# \(program.name)")
  try await program.run()
}
