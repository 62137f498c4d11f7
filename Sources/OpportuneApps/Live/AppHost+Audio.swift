import OpportuneScheduler

/// Audio of live apps: what the system decides of it, done to the stream. (R-AUD)
extension AppHost {
  func startAudio(
    _ app: HostedApp, _ activity: AudioActivity, _ period: Duration,
    _ render: @escaping @Sendable (AudioStream.Frame) -> Void
  ) throws(HostError) -> AudioStream {
    guard let resident = residents[app.id], resident.app === app else {
      throw HostError.terminated(app.manifest.identifier)
    }
    guard resident.audio == nil else {
      throw HostError.audio("app \"\(app.manifest.identifier)\" has a stream; end it first")
    }
    let realTimeClass = scheduler.realTimeClass
    let place: App
    do {
      place = try scheduler.makeApp(
        named: "\(app.manifest.identifier) audio", band: realTimeClass == .noLane ? .foreground : .realTime)
    } catch {
      throw HostError.scheduler(error)
    }
    let stream = AudioStream(activity, period, realTimeClass, app)
    let pump = AudioPump(stream, place: place, render: render)
    resident.audio = pump
    do {
      // The first frame is asked for as this is told of.
      try post(.app(app.id, .audioBegan(activity)))
    } catch {
      if resident.audio === pump { resident.audio = nil }
      throw error
    }
    return stream
  }

  /// Makes the stream do as the system has decided.
  func followAudio(_ id: AppID) {
    guard let resident = residents[id], let pump = resident.audio else { return }
    if let restrictions = system.view(of: id)?.restrictions { pump.restrict(restrictions) }
    switch system.audio(of: id) {
    case .none: endAudio(resident)
    case .paused: pump.halt()
    case .playing: if system.state(of: id)?.mayExecute == true { pump.run() } else { pump.halt() }
    }
  }

  func endAudio(_ resident: Resident) {
    resident.audio?.end()
    resident.audio = nil
  }
}
