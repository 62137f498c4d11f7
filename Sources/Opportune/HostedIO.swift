import OpportuneApps
import OpportuneIO
import OpportuneScheduler

extension HostedApp {
  /// The I/O of this life: in the class of the app's band, held while the app is suspended and delivered once when it is
  /// resumed, and ended with it: requests then end with `terminated` and descriptors are closed. (R-FTS-07, R-LIFE-08)
  ///
  /// - Throws: ``IOError`` with code `forked`.
  public func attach(to broker: IOBroker) throws(IOError) -> AppIO {
    let io = try broker.attach(app)
    atEnd { [weak io] in
      guard let io else { return }
      Task { await io.terminate() }
    }
    return io
  }
}

extension AppHost {
  /// A broker whose first held completion of a suspended app is reported to the host, so that it reanimates the app
  /// where the policy's `completionsReanimate` wants that. (R-FTS-08)
  ///
  /// - Parameter configuration: `heldCompletions` and `onHeldCompletion` are the host's.
  /// - Throws: ``IOError``: `configuration`, `unavailable`.
  public nonisolated func makeIOBroker(_ configuration: IOConfiguration = IOConfiguration()) throws(IOError) -> IOBroker
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
