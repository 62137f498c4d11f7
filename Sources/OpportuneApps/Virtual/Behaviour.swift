/// How a virtual app responds to requests: the delay of each response. `nil` is never.
package struct Behaviour: Sendable, Hashable {
  /// From the start of a callback to its return.
  package var callback: Duration? = .zero
  /// From `stop execution` to the end of its last slice.
  package var slice: Duration? = .zero
  /// From the call of the expiration handler to the end of the task.
  package var expiration: Duration? = .zero
  /// From reanimation until the event is handled.
  package var handling: Duration? = .milliseconds(100)
  /// From the start of a fetch to its result.
  package var fetch: Duration? = .seconds(1)
  package var fetchResult = FetchResult.newData
  /// From termination until everything is released.
  package var reaping: Duration? = .zero

  package init() {}
}
