import Foundation
import Opportune

/// Records when it was launched and when it came back, through the callbacks alone.
actor LaunchTimes: AppDelegate {
  private(set) var launches: [Date] = []
  private(set) var resumes: [Date] = []

  func didFinishLaunching(_ reason: LaunchReason) async { launches.append(Date()) }
  func willEnterForeground() async { resumes.append(Date()) }
}

var policy = AppsPolicy()
policy.suspendsOnReturn = true  // no grace, so that the example does not take long
let host = try AppHost(policy: policy)
let times = LaunchTimes()
let app = await host.register(Manifest(identifier: "launch-times")) { _ in times }

for _ in 0..<2 {
  try await host.launch(app)
  for _ in 0..<3 {
    try await reach(.active)
    try await host.leave(app)
    try await reach(.suspended)
    try await host.bringForward(app)
  }
  try await reach(.active)
  try await host.terminate(app)
  try await reach(.notRunning)
}
print("\(await times.launches.count) launches, \(await times.resumes.count) resumes")

/// Waits until the app is in a state.
func reach(_ state: LifecycleState) async throws {
  let events = await host.observe()
  if await host.state(of: app) == state { return }
  for await event in events { if case .moved(_, state, _) = event.action { return } }
}
