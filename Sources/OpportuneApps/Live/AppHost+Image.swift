import OpportuneScheduler

/// Images for the switcher. (R-LIFE-20)
extension AppHost {
  /// Asks an app for its image; no other code of the app runs. The call counts as the app's last slice: the
  /// app is suspended once it has returned, and the same time limit applies.
  ///
  /// It does not run on the host's strand, which serves all other apps. It runs in the foreground band, so
  /// that a loaded machine does not make it exceed the limit. If it does not return, the app's end moves it
  /// to the background.
  func askForImage(_ resident: Resident) {
    guard resident.snapshotExecutor == nil else { return }
    let app = resident.app
    // There is no image if the scheduler has no room for another app. The life may be over, or its delegate
    // not made yet.
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
    // The app may have been resumed meanwhile, and even stopped again.
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
    resident.isLate = false
    try? post(.app(app.id, .stopped))
  }

  /// Stores the image in a broker's purgeable memory, if there is such a broker.
  func keepSnapshot(_ image: [UInt8]?, of id: AppID) {
    var isKept = false
    for broker in brokers { isKept = broker.keepImage(isKept ? nil : image, of: id) || isKept }
    snapshots[id] = isKept ? nil : image
  }
}

extension AppHost.Resident {
  /// The result of the last call, returned once.
  func takeImage() -> [UInt8]? {
    defer { image = nil }
    return image
  }
}
