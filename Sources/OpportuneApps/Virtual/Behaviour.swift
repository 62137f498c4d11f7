/// What an app of virtual time does when it is asked for something: how long each answer takes. `nil`: it
/// never answers.
package struct Behaviour: Sendable, Hashable {
  /// From the moment that a callback is the next one to its return.
  package var callback: Duration? = .zero
  /// From `stop execution` to the end of its last slice.
  package var slice: Duration? = .zero
  /// From the call of the expiration handler to the end of the task.
  package var expiration: Duration? = .zero
  /// From being woken to being done with it.
  package var handling: Duration? = .milliseconds(100)
  /// From the start of a fetch to its result.
  package var fetch: Duration? = .seconds(1)
  package var fetchResult = FetchResult.newData
  /// From termination until nothing of it is left.
  package var reaping: Duration? = .zero

  package init() {}
}
