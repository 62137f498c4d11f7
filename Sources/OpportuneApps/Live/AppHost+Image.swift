import OpportuneScheduler

/// Images for the switcher. (R-LIFE-20)
extension AppHost {
  /// Asks an app of which nothing runs for its image. It counts as its last slice: the app is suspended once
  /// it has answered, and taking too long is the same overrun.
  ///
  /// Beside the strand, which has all others to serve, and in the front band, so that a loaded machine ends
  /// nobody; where it does not end, the app's end sends it to background.
  func askForImage(_ resident: Resident) {
    guard resident.snapshotExecutor == nil else { return }
    let app = resident.app
    // Short of places there is no image; the life may be over, or may not have come to its delegate.
    guard let delegate = resident.delegate,
      let place = try? scheduler.makeApp(named: "\(app.manifest.identifier) image", band: .foreground),
      let leave = app.countIn()
    else { return stopped(app, with: nil) }
    resident.snapshotExecutor = place
    _ = place.task(name: "image") { [host = WeakHost(self)] in
      defer { leave() }
      let image = delegate.snapshot()
      await host.value?.received(image, of: app, from: place)
    }
  }

  private func received(_ image: [UInt8]?, of app: HostedApp, from place: App) {
    // It may have been resumed, and even stopped again, meanwhile.
    guard let resident = residents[app.id], resident.app === app, resident.snapshotExecutor === place else {
      return
    }
    resident.snapshotExecutor = nil
    stopped(app, with: image)
  }

  private func stopped(_ app: HostedApp, with image: [UInt8]?) {
    guard let resident = residents[app.id], resident.app === app, system.state(of: app.id) == .stopping else {
      return
    }
    resident.image = image
    try? post(.app(app.id, .stopped))
  }

  /// With a broker that has purgeable memory for it, if there is one.
  func keepSnapshot(_ image: [UInt8]?, of id: AppID) {
    var isKept = false
    for broker in brokers { isKept = broker.keepImage(isKept ? nil : image, of: id) || isKept }
    snapshots[id] = isKept ? nil : image
  }
}

extension AppHost.Resident {
  /// What it answered last, once.
  func takeImage() -> [UInt8]? {
    defer { image = nil }
    return image
  }
}
