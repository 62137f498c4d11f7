import OpportuneScheduler

/// Audio of live apps: what the system decides of it, done to the stream. (R-AUD)
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
    // Where nobody asks, the kernel's list of what is mapped need not be read.
    if policy.audio.approvedLibraries != nil {
      pump.file = LoadedObject.file(of: render) ?? "memory of no file"
    }
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
    if system.audio(of: id) == .playing { resident.work.stay = nil }  // it has its own measure
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

  /// Tells the system where the code comes from that an app in background has on the real-time pool.
  /// (R-AUD-07)
  func tellRealTimeCode(of id: AppID) {
    guard system.state(of: id) == .background, let pump = residents[id]?.audio, let file = pump.file else {
      return
    }
    // After the effects that are being carried out.
    Task { if self.residents[id]?.audio === pump { try? self.post(.app(id, .realTimeCode(file))) } }
  }
}
