/// Swift's default executor: tasks of high priority beside tasks of background priority.
final class SwiftDefaultContender: Contender {
  let name = "swift-default"
  let lockFreeNote = "no: on Dispatch's global queues"

  func submitForeground(_ job: @escaping Job) -> Bool {
    Task.detached(priority: .high) { job() }
    return true
  }

  func submitBackground(_ job: @escaping Job) -> Bool {
    Task.detached(priority: .background) { job() }
    return true
  }

  func startYieldingHog(_ step: @escaping @Sendable () -> Bool, ended: @escaping Job) -> Bool {
    Task.detached(priority: .high) {
      while step() { await Task.yield() }
      ended()
    }
    return true
  }
}
