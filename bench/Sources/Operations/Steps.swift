import Dispatch
import Opportune

extension Comparison {
  /// Numbers of jobs queued in the app that changes.
  private static let sizes = [1, 100, 10_000, 100_000]

  /// Steps of an app with jobs queued. The rival of suspension is a Dispatch queue for each app, suspended
  /// likewise. A band change has none there: beside it stands the same step of an empty app, so that the
  /// ratio is flatness.
  static let steps: [Entry] =
    sizes.map { size in Entry("suspend_resume_\(size)") { try suspendResume(queued: size) } }
    + sizes.map { size in Entry("first_of_another_\(size)") { try firstOfAnother(queued: size) } }
    + sizes.map { size in Entry("band_change_\(size)") { try bandChange(queued: size) } }

  private static func suspendResume(queued: Int) throws -> Comparison {
    let circle = try Circle(queued)
    return Comparison(
      ours: { operations in
        for _ in 0..<operations {
          circle.app.resume()
          circle.app.suspend()
        }
      },
      rival: { operations in
        for _ in 0..<operations {
          circle.queue.resume()
          circle.queue.suspend()
        }
      })
  }

  private static func firstOfAnother(queued: Int) throws -> Comparison {
    let circle = try Circle(queued)
    let other = try circle.scheduler.makeApp(named: "other")
    let otherQueue = DispatchQueue(label: "other")
    return Comparison(
      ours: { operations in
        let done = DispatchSemaphore(value: 0)
        for _ in 0..<operations {
          circle.app.resume()
          circle.app.suspend()
          try other.submit { done.signal() }
          block(on: done)
        }
      },
      rival: { operations in
        let done = DispatchSemaphore(value: 0)
        for _ in 0..<operations {
          circle.queue.resume()
          circle.queue.suspend()
          otherQueue.async { done.signal() }
          block(on: done)
        }
      })
  }

  private static func bandChange(queued: Int) throws -> Comparison {
    let circle = try Circle(queued)
    let empty = try circle.scheduler.makeApp(named: "empty")
    empty.suspend()
    return Comparison(
      ours: { operations in try change(circle.app, operations) },
      rival: { operations in try change(empty, operations) })
  }

  private static func change(_ app: App, _ operations: Int) throws {
    for _ in 0..<operations {
      try app.setBand(.background)
      try app.setBand(.foreground)
    }
  }
}

/// Not called from a task directly, where the compiler forbids it; here nothing that is waited for needs this
/// thread.
private func block(on semaphore: DispatchSemaphore) { semaphore.wait() }

/// A suspended app, and a suspended queue, with so many jobs queued, each of which queues itself again.
private final class Circle: Sendable {
  let scheduler: Scheduler
  let app: App
  let queue = DispatchQueue(label: "circle")

  init(_ queued: Int) throws {
    let fixture = try Fixture()
    scheduler = fixture.scheduler
    app = fixture.app
    app.suspend()
    queue.suspend()
    for _ in 0..<queued {
      try app.submit(Self.again(app))
      queue.async(execute: Self.again(queue))
    }
  }

  private static func again(_ app: App) -> @Sendable () -> Void {
    // Refused only once the scheduler is shut down; then the circle may end.
    { try? app.submit(again(app)) }
  }

  private static func again(_ queue: DispatchQueue) -> @Sendable () -> Void {
    { queue.async(execute: again(queue)) }
  }
}
