import Opportune

/// A host that leaves its apps all the time that the slowest machine may need, and is done with each callback as soon as
/// it has returned.
func patientHost(
  scheduler: Scheduler? = nil, brokers: [any ResourceBroker] = [], _ change: (inout AppsPolicy) -> Void = { _ in }
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

/// Waits until an app is in a state; by events, not by time.
func wait(_ host: AppHost, _ id: AppID, for state: LifecycleState) async {
  let events = await host.observe()
  if await host.state(of: id) == state { return }
  for await event in events {
    if case .moved(_, state, _) = event.action, event.app == id { return }
  }
}

func wait(_ host: AppHost, _ app: HostedApp, for state: LifecycleState) async { await wait(host, app.id, for: state) }

/// Waits for what no event tells, and leaves the CPU to who brings it about; ends with the test's time.
func until(_ holds: () async throws -> Bool) async throws {
  while try await !holds() { try await Task.sleep(for: .milliseconds(1)) }
}

/// Does nothing until the task that it runs in is cancelled.
func untilCancelled() async { for await _ in AsyncStream(Void.self, { _ in }) {} }
