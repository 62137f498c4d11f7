/// The callbacks of an app's lifecycle, implemented by the program. They run on the app's own executor, one
/// at a time.
///
/// All have an empty default, so no compiler says that a method of another name or signature is none of
/// these, and never called. A callback returns when its `async` body does; the policy's limits count until
/// then. A notice runs after the callbacks that were requested before it, but later callbacks do not wait for
/// it: a callback may run while ``didReceive(_:)`` does.
public protocol AppDelegate: Sendable {
  /// The app was launched, for this reason. (R-LIFE-09, R-LIFE-10)
  func didFinishLaunching(_ reason: LaunchReason) async
  /// The app returns to the foreground.
  func willEnterForeground() async
  /// The app receives the user's input from now on.
  func didBecomeActive() async
  /// The app no longer receives the user's input.
  func willResignActive() async
  /// The app has entered the background: the last chance to save. (R-LIFE-15)
  func didEnterBackground() async
  /// The app's life ends after this call.
  func willTerminate() async

  /// Something arrived for the app: a message, data, a due heartbeat, a change; also the loss of hardware or
  /// a lock. The app is kept in the background until this returns, for all that arrived together, or until
  /// the policy's time is over.
  func didReceive(_ notice: AppNotice) async
  /// Fetch new data, within the policy's time limit. (R-MAN-02)
  func fetch() async -> FetchResult
  /// Its audio is to pause. (R-AUD-05)
  func audioShouldPause() async
  /// Its audio may go on. (R-AUD-05)
  func audioShouldResume() async
  /// Memory is short: release what can be rebuilt.
  func didReceiveMemoryWarning() async
  /// Returns the app's current image, for the switcher. Called when nothing else of the app runs, and not on
  /// its executor.
  ///
  /// It counts as the app's last slice: the app is suspended once this has returned, and
  /// ``AppsPolicy/sliceAllowance`` applies. If the app is resumed meanwhile, this call continues beside it,
  /// and its result is dropped. (R-LIFE-20)
  func snapshot() -> [UInt8]?
}

extension AppDelegate {
  public func didFinishLaunching(_ reason: LaunchReason) async {}
  /// The app returns to the foreground.
  public func willEnterForeground() async {}
  /// The app receives the user's input from now on.
  public func didBecomeActive() async {}
  /// The app no longer receives the user's input.
  public func willResignActive() async {}
  public func didEnterBackground() async {}
  /// The app's life ends after this call.
  public func willTerminate() async {}
  public func didReceive(_ notice: AppNotice) async {}
  public func fetch() async -> FetchResult { .noData }
  public func audioShouldPause() async {}
  public func audioShouldResume() async {}
  public func didReceiveMemoryWarning() async {}
  public func snapshot() -> [UInt8]? { nil }

  func handle(_ callback: Callback, _ reason: LaunchReason) async {
    switch callback {
    case .didFinishLaunching: await didFinishLaunching(reason)
    case .willEnterForeground: await willEnterForeground()
    case .didBecomeActive: await didBecomeActive()
    case .willResignActive: await willResignActive()
    case .didEnterBackground: await didEnterBackground()
    case .willTerminate: await willTerminate()
    }
  }
}

/// Something that arrived for an app.
public enum AppNotice: Sendable, Hashable {
  /// A message from outside, or the app's own local notification.
  case message(Message)
  /// Changes while the app was away, the last state of each kind. (R-COAL)
  case changes([Change])
  /// This many bytes arrived on a socket that is kept alive.
  case data(bytes: Int)
  /// A heartbeat is due: send one. (R-VOIP-05)
  case heartbeat
  /// A location or a crossing of a fence.
  case location
  /// The kernel has completed a request of the app.
  case completion
  /// The app has lost the hardware, because it went to the background. It may request it again. (R-HW-01)
  case revoked(Hardware)
  /// The app has lost its lock. (R-LOCK-02)
  case lockRevoked(SharedResource)
}

/// What the lifecycle requires of the brokers of memory, I/O, location and hardware. Calls come in the order
/// of the effects, on the host's own strand: return soon. All have an empty default.
package protocol ResourceBroker: Sendable {
  /// A life of an app begins; called before any of its code runs.
  func begins(_ app: HostedApp)
  /// The app's delegate was made; called before any callback.
  func has(_ delegate: any AppDelegate, _ app: HostedApp)
  /// The app's current state; called after the effects of the change.
  func stands(_ app: AppID, _ snapshot: AppSnapshot)
  /// Stores the app's image for the switcher, in place of the last one; `nil` removes it. Returns whether the
  /// broker stored it; if no broker does, the host keeps it. (R-LIFE-20)
  func keepImage(_ image: [UInt8]?, of app: AppID) -> Bool
  /// The stored image, unless memory was short.
  func image(of app: AppID) -> [UInt8]?
  /// Memory of images is needed now.
  func purgeImages()
  /// Write the app's memory to the store. No code of the app runs. (R-MEM-05)
  func save(_ app: AppID)
  /// Restore the app's memory. No code of the app runs before the returned task, if any, has ended. Its
  /// result says whether everything was restored. If not, the app is terminated, and launched again if it was
  /// to come to the foreground. (R-MEM-07)
  func restore(_ app: AppID) -> Task<Bool, Never>?
  /// Cancel the app's requests, release its regions and grants, and delete its state.
  func takeBack(_ app: AppID)
}

extension ResourceBroker {
  package func begins(_ app: HostedApp) {}
  package func has(_ delegate: any AppDelegate, _ app: HostedApp) {}
  package func stands(_ app: AppID, _ snapshot: AppSnapshot) {}
  package func keepImage(_ image: [UInt8]?, of app: AppID) -> Bool { false }
  package func image(of app: AppID) -> [UInt8]? { nil }
  package func purgeImages() {}
  package func save(_ app: AppID) {}
  package func restore(_ app: AppID) -> Task<Bool, Never>? { nil }
  package func takeBack(_ app: AppID) {}
}
