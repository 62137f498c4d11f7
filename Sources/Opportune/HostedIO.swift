import Glibc
import OpportuneApps
import OpportuneIO
import OpportuneScheduler
import SystemPackage

extension IOBroker {
  /// The I/O of an app's life: storage and network each in the class that ``Restrictions`` has for it, held
  /// while the app is suspended and delivered once when it is resumed, and ended with it: requests then end
  /// with `terminated` and descriptors are closed. (R-FTS-07, R-LIFE-08, R-PWR-05)
  ///
  /// - Throws: ``IOError`` with code `forked`.
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
  /// Keeps sockets alive while the app is suspended. What arrives on one then, or its end, brings the app
  /// into background and to ``AppDelegate/didReceive(_:)`` as `data`: once per socket and suspension, so it
  /// should read what is there. A heartbeat is asked for by `post(.heartbeat(…))`. (R-VOIP-01, R-VOIP-03,
  /// R-VOIP-04)
  ///
  /// - Parameters:
  ///   - sockets: open ones of the app. From the next suspension on, until the life ends.
  ///   - io: of this life; keep it.
  /// - Throws: ``HostError``: `apps` for an app without the mode `voip`; ``IOError`` with code
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
        try? await self.post(.data(bytes: Int(bytes)))  // refused where it has ended
      }
    }
  }
}

extension AppHost {
  /// A broker whose first held completion of a suspended app is reported to the host, so that it reanimates
  /// the app where the policy's `completionsReanimate` wants that. (R-FTS-08)
  ///
  /// - Parameter configuration: `heldCompletions` and `onHeldCompletion` are the host's.
  /// - Throws: ``IOError``: `configuration`, `unavailable`.
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
    // Refused where the app is gone by now.
    if let id = id(of: name) { try? post(.app(id, .completion)) }
  }
}
