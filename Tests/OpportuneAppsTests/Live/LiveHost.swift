import Opportune
import TestSupport
import Testing

/// The delegate of an app that is told nothing.
struct Silent: AppDelegate {}

/// A host that allows its apps as much time as the slowest machine may need, and handles each callback's end
/// at once.
func patientHost(
  scheduler: Scheduler? = nil, brokers: [any ResourceBroker] = [],
  _ change: (inout AppsPolicy) -> Void = { _ in }
) throws -> AppHost {
  var policy = AppsPolicy()
  policy.grace = .seconds(30)
  policy.callbackLimit = .seconds(30)
  policy.sliceAllowance = .seconds(30)
  policy.eventTime = .seconds(30)
  policy.tasks.handlerTime = .seconds(30)
  policy.suspendsOnReturn = true
  change(&policy)
  return try AppHost(scheduler: scheduler, policy: policy, brokers: brokers)
}

/// Waits until an app is in a state; by events, not by time. Where the test's time is over it fails, and goes
/// on.
func wait(
  _ host: AppHost, _ id: AppID, for state: LifecycleState, sourceLocation: SourceLocation = #_sourceLocation
) async {
  let events = await host.observe()
  if await host.state(of: id) == state { return }
  for await event in events {
    if case .moved(_, state, _) = event.action, event.app == id { return }
  }
  let now = await host.state(of: id).map { "\($0)" } ?? "unknown"
  Issue.record("the app is \(now) and has not become \(state)", sourceLocation: sourceLocation)
}

func wait(
  _ host: AppHost, _ app: HostedApp, for state: LifecycleState,
  sourceLocation: SourceLocation = #_sourceLocation
) async {
  await wait(host, app.id, for: state, sourceLocation: sourceLocation)
}

/// Waits for what no event tells. See ``eventually(_:sourceLocation:_:)``.
func until(
  sourceLocation: SourceLocation = #_sourceLocation,
  _ holds: () async throws -> Bool
) async throws {
  try await eventually("what was awaited", sourceLocation: sourceLocation, holds)
}

/// Does nothing until the task that it runs in is cancelled.
func untilCancelled() async { for await _ in AsyncStream(Void.self, { _ in }) {} }

/// Brings an app to the front, and waits until it is there.
func launchAndWait(
  _ host: AppHost, _ id: AppID, sourceLocation: SourceLocation = #_sourceLocation
) async throws {
  try await host.launch(id)
  await wait(host, id, for: .active, sourceLocation: sourceLocation)
}

/// The same of an app that nobody has registered.
@discardableResult
func launchAndWait(
  _ host: AppHost, _ manifest: Manifest, sourceLocation: SourceLocation = #_sourceLocation,
  delegate: @escaping AppHost.MakeDelegate
) async throws -> HostedApp {
  let app = try await host.launch(manifest, delegate: delegate)
  await wait(host, app, for: .active, sourceLocation: sourceLocation)
  return app
}

/// Has an app leave the front, and waits until it is suspended.
func leaveAndWait(
  _ host: AppHost, _ id: AppID, sourceLocation: SourceLocation = #_sourceLocation
) async throws {
  try await host.leave(id)
  await wait(host, id, for: .suspended, sourceLocation: sourceLocation)
}

func leaveAndWait(
  _ host: AppHost, _ app: HostedApp, sourceLocation: SourceLocation = #_sourceLocation
) async throws {
  try await leaveAndWait(host, app.id, sourceLocation: sourceLocation)
}

struct Failure: Error {
  let what: String
  init(_ what: String) { self.what = what }
}
