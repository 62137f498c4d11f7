import Glibc
import OpportuneApps
import OpportuneIO
import OpportuneScheduler
import SystemPackage

extension IOBroker {
  /// Makes the I/O of an app's life. Storage and network each have the class of the app's `Restrictions`.
  /// While the app is suspended, completions are held; they are delivered once when it is resumed. The I/O
  /// ends with the life: requests then end with `terminated`, and descriptors are closed. (R-FTS-07,
  /// R-LIFE-08, R-PWR-05)
  ///
  /// - Throws: `IOError` with code `unavailable` after the broker's shutdown.
  public func makeIO(for app: HostedApp) throws(IOError) -> AppIO {
    let io = try makeIO(for: app.app) { [deviceClasses = app.deviceClasses] in
      deviceClasses.value.map {
        IOLimits(
          storage: $0.storage == .foreground ? .foreground : .background,
          network: $0.network == .foreground ? .foreground : .background)
      }
    }
    app.atEnd { [weak io] in
      guard let io else { return }
      Task { await io.terminate() }
    }
    return io
  }
}

extension HostedApp {
  /// Keeps sockets alive while the app is suspended. Data on one, or the end of its stream, reanimates the
  /// app into the background and is passed to `AppDelegate.didReceive(_:)` as `data`: once for each socket
  /// and suspension, so the app should read everything. Request a heartbeat with `post(.heartbeat(…))`.
  /// (R-VOIP-01, R-VOIP-03, R-VOIP-04)
  ///
  /// - Parameters:
  ///   - sockets: open sockets of the app; kept alive from the next suspension until the life ends.
  ///   - io: the I/O of this life; keep it.
  /// - Throws: `HostError`: `apps` for an app without the mode `voip`; `IOError` with code
  ///   `configuration`.
  public func keepAlive(_ sockets: [FileDescriptor], of io: AppIO) throws {
    guard manifest.backgroundModes.contains(.voip) else {
      throw HostError(.apps(AppsError(.missingMode(id, .voip))))
    }
    let events = try io.keepAlive(sockets)
    Task { [weak self] in
      for await event in events {
        guard case .dataArrived(let socket) = event, let self else { continue }
        var bytes: Int32 = 0
        _ = ioctl(socket.rawValue, UInt(FIONREAD), &bytes)
        try? await self.post(.data(bytes: Int(bytes)))  // refused if the app has ended
      }
    }
  }
}

extension AppHost {
  /// Makes a broker that reports the first held completion of a suspended app to the host. The host
  /// reanimates the app if the policy's `completionsReanimate` is set. (R-FTS-08)
  ///
  /// - Parameter configuration: `heldCompletions` and `onHeldCompletion` are overridden by the host.
  /// - Throws: `IOError`: `configuration`, `unavailable`.
  public nonisolated func makeIOBroker(configuration: IOConfiguration = IOConfiguration()) throws(IOError)
    -> IOBroker
  {
    var configuration = configuration
    configuration.heldCompletions = .report
    configuration.onHeldCompletion = { [weak self] name in
      guard let self else { return }
      Task { await self.completionIsHeld(of: name) }
    }
    return try IOBroker(configuration: configuration)
  }

  private func completionIsHeld(of name: String) {
    // Refused if the app has ended by now.
    if let id = id(of: name) { try? post(.app(id, .completion)) }
  }
}
