// Does one operation so many times and ends: what `scripts/count-ops` counts.
//
//   OpportuneOps                       lists the operations
//   OpportuneOps NAME ours|rival N

import Foundation
import Operations

func fail(_ message: String) -> Never {
  FileHandle.standardError.write(Data("error: \(message)\n".utf8))
  exit(2)
}

let arguments = CommandLine.arguments.dropFirst()
guard let name = arguments.first else {
  for entry in Comparison.all { print(entry.name) }
  exit(0)
}
guard let entry = Comparison.all.first(where: { $0.name == name }) else {
  fail("there is no operation \(name)")
}
guard arguments.count == 3, let way = arguments.dropFirst().first, ["ours", "rival"].contains(way),
  let number = arguments.last.flatMap(Int.init), number > 0
else { fail("usage: OpportuneOps NAME ours|rival N") }

let comparison = try entry.make()
let run = way == "ours" ? comparison.ours : comparison.rival
// In batches, as the benchmarks do, so that no task of ours lives long enough to be demoted.
for start in stride(from: 0, to: number, by: Comparison.batch) {
  try await run(min(Comparison.batch, number - start))
}
exit(0)
