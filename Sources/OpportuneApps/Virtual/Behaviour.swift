/// What an app of virtual time does when it is asked for something: how long each answer takes. `nil`: it never answers.
public struct Behaviour: Sendable, Hashable {
  /// From the moment that a callback is the next one to its return.
  public var callback: Duration? = .zero
  /// From `stop execution` to the end of its last slice.
  public var slice: Duration? = .zero
  /// From the call of the expiration handler to the end of the task.
  public var expiration: Duration? = .zero
  /// From being woken to being done with it.
  public var handling: Duration? = .milliseconds(100)
  /// From the start of a fetch to its result.
  public var fetch: Duration? = .seconds(1)
  public var fetchResult = FetchResult.newData
  /// From termination until nothing of it is left.
  public var reaping: Duration? = .zero

  public init() {}
}
