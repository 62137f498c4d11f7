/// What a program implements to be an app: callbacks of the lifecycle, on the app's own executor, one at a
/// time.
///
/// All have an empty default. A callback returns when its `async` body does; the policy's limits count until
/// then. What else comes for the app comes after the callbacks that were asked for before it, which do not
/// wait for it in turn: a callback may come while ``didReceive(_:)`` runs.
public protocol AppDelegate: Sendable {
  /// It was launched, and why. (R-LIFE-09, R-LIFE-10)
  func didFinishLaunching(_ reason: LaunchReason) async
  /// It comes back to the front.
  func willEnterForeground() async
  /// It has the user's input from now on.
  func didBecomeActive() async
  /// It loses the user's input.
  func willResignActive() async
  /// The last chance to save. (R-LIFE-15)
  func didEnterBackground() async
  /// Its life ends after this.
  func willTerminate() async

  /// Something came for it: a message, data, a heartbeat to send, a change. It is kept in background until
  /// this returns, for whatever came together, or until the policy's time for it is over. What it has lost is
  /// said here too.
  func didReceive(_ notice: AppNotice) async
  /// Fetches, within the policy's limit. (R-MAN-02)
  func fetch() async -> FetchResult
  /// Play, or do not. (R-AUD-05)
  func audioShould(play: Bool) async
  /// Release what can be rebuilt.
  func didReceiveMemoryWarning() async
  /// Its current image, for the switcher; called when nothing else of the app runs, not on its executor.
  /// Counts as its last slice: it is suspended once this has returned, and ``AppsPolicy/sliceAllowance``
  /// holds. Where it is wanted back meanwhile, this runs on beside it, for nothing. (R-LIFE-20)
  func snapshot() -> [UInt8]?
}

extension AppDelegate {
  public func didFinishLaunching(_ reason: LaunchReason) async {}
  /// It comes back to the front.
  public func willEnterForeground() async {}
  /// It has the user's input from now on.
  public func didBecomeActive() async {}
  /// It loses the user's input.
  public func willResignActive() async {}
  public func didEnterBackground() async {}
  /// Its life ends after this.
  public func willTerminate() async {}
  public func didReceive(_ notice: AppNotice) async {}
  public func fetch() async -> FetchResult { .noData }
  public func audioShould(play: Bool) async {}
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

/// What comes for an app.
public enum AppNotice: Sendable, Hashable {
  /// A message from outside, or its own notification.
  case message(Message)
  /// What changed while it was away, the last state of each kind. (R-COAL)
  case changes([Change])
  /// So many bytes arrived on a socket that is kept alive.
  case data(bytes: Int)
  /// Send one. (R-VOIP-05)
  case heartbeat
  /// A location or a crossing has come.
  case location
  /// The kernel has finished something for it.
  case completion
  /// It has lost the hardware, as it went to background; asking for it again is up to it. (R-HW-01)
  case revoked(Hardware)
  /// It has lost what it had locked. (R-LOCK-02)
  case lockRevoked(SharedResource)
}

/// What the lifecycle needs from the brokers of memory, I/O, location and hardware. Each is told in the order
/// of the effects, on the host's own strand: return soon. All have an empty default.
package protocol ResourceBroker: Sendable {
  /// A life of an app begins; before anything of it runs.
  func begins(_ app: HostedApp)
  /// Its delegate is there; before any callback.
  func has(_ delegate: any AppDelegate, _ app: HostedApp)
  /// Where an app is now, after the effects that brought it there.
  func stands(_ app: AppID, _ snapshot: AppSnapshot)
  /// Keep its image for the switcher, in place of the last; `nil`: forget that. Returns whether it did; where
  /// no broker does, the host keeps it. (R-LIFE-20)
  func keepImage(_ image: [UInt8]?, of app: AppID) -> Bool
  /// The image that it keeps, unless memory was short.
  func image(of app: AppID) -> [UInt8]?
  /// Memory of images is wanted now.
  func purgeImages()
  /// Write its memory to the store: nothing of it runs. (R-MEM-05)
  func save(_ app: AppID)
  /// Bring it back. Nothing of the app runs before the task, if there is one, has ended; it answers whether
  /// all is as it was. An app that is not ends, and begins anew if it was to come to the front. (R-MEM-07)
  func restore(_ app: AppID) -> Task<Bool, Never>?
  /// Cancel its requests, take its regions and grants back, forget its state.
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
