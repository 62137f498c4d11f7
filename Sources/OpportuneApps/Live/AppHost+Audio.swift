import OpportuneScheduler

/// Audio of live apps: applies the system's decisions to the stream. (R-AUD)
extension AppHost {
  func startAudio(
    _ app: HostedApp, _ activity: AudioActivity, _ period: Duration,
    _ render: @escaping @Sendable (AudioStream.Frame) -> Void
  ) throws(HostError) -> AudioStream {
    guard let resident = residents[app.id], resident.app === app else {
      throw HostError(.terminated(app.manifest.identifier))
    }
    guard resident.audio == nil else {
      throw HostError(.audio("app \"\(app.manifest.identifier)\" has a stream; end it first"))
    }
    let realTimeClass = scheduler.realTimeClass
    let place: App
    do {
      place = try scheduler.makeApp(
        named: "\(app.manifest.identifier) audio", band: realTimeClass == .noPool ? .foreground : .realTime)
    } catch {
      throw HostError(.scheduler(error))
    }
    let stream = AudioStream(activity, period, realTimeClass, app)
    let pump = AudioPump(stream, place: place, render: render)
    // Without a list of approved libraries, /proc/self/maps need not be read.
    if policy.audio.approvedLibraries != nil {
      pump.file = LoadedObject.file(of: render) ?? "memory of no file"
    }
    resident.audio = pump
    do {
      // The first frame is asked for as this is told of.
      try post(.app(app.id, .does(.audioBegan(activity))))
    } catch {
      if resident.audio === pump { resident.audio = nil }
      throw error
    }
    return stream
  }

  /// Applies the system's decision to the app's stream.
  func followAudio(_ id: AppID) {
    guard let resident = residents[id], let pump = resident.audio else { return }
    if system.audio(of: id) == .playing { resident.work.stay = nil }  // audio is measured separately
    if let restrictions = system.view(of: id)?.restrictions { pump.restrict(restrictions) }
    switch system.audio(of: id) {
    case .none: resident.endAudio()
    case .paused: pump.halt()
    case .playing where system.state(of: id)?.mayExecute == true:
      if !pump.isRunning { tellRealTimeCode(of: id) }
      pump.run()
    case .playing: pump.halt()
    }
  }

  /// Reports to the system which file holds the code that a background app runs on the real-time pool.
  /// (R-AUD-07)
  func tellRealTimeCode(of id: AppID) {
    guard system.state(of: id) == .background, let pump = residents[id]?.audio, let file = pump.file else {
      return
    }
    // Posted after the current effects.
    soon { [stream = pump.stream] in
      if $0.residents[id]?.audio?.stream === stream { try? $0.post(.app(id, .realTimeCode(file))) }
    }
  }
}
