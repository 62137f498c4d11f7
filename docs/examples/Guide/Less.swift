import Foundation
import Opportune

/// A program that asks for more than most machines give it, says what it lacks, and does its work all the same.
func less() async throws {
  var configuration = SchedulerConfiguration()
  configuration.foregroundClass = .realTime()  // takes a privilege
  let findings = Diagnosis.run(configuration: configuration).findings
  let lacking = findings.filter { $0.status != .ok }
  for finding in lacking {
    let line = "\(finding.subject): \(finding.found). \(finding.cost ?? "")\n"
    FileHandle.standardError.write(Data(line.utf8))  // or to a log, once, as the program begins
  }
  print("it says what each costs: \(lacking.allSatisfy { $0.cost != nil })")

  let scheduler = try Scheduler(configuration: configuration)
  let app = try scheduler.makeApp(named: "app")
  let back = try scheduler.makeApp(named: "back", band: .background)
  let sum = back.task { (1...1000).reduce(0, +) }
  let answer = await app.task { "an answer" }.value
  print("\(answer), and \(await sum.value) from behind")

  let access = await scheduler.statistics().realTimeForeground?.access
  print("whether it has the class is told: \(access != nil)")
  try await scheduler.shutdown()
}
