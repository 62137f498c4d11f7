import Glibc

/// The buffers that an app draws into. (R-GFX-03, R-RULE-02)
extension AppHost {
  func adopt(_ buffer: DrawingBuffer, _ app: HostedApp) throws(HostError) {
    guard let resident = residents[app.id], resident.app === app else {
      throw HostError(.terminated(app.manifest.identifier))
    }
    resident.buffers.append(buffer)
    setAccepts(system.view(of: app.id)?.restrictions.mayDraw ?? false, [buffer], of: app.id)
    if !resident.callbacks.contains(.didEnterBackground) { buffer.watch() }
  }

  func placePages(of resident: Resident, _ mayDraw: Bool) {
    noticeDrawing(of: resident)
    setAccepts(mayDraw, resident.buffers, of: resident.app.id)
  }

  private func setAccepts(_ mayDraw: Bool, _ buffers: [DrawingBuffer], of id: AppID) {
    for error in Set(buffers.map { $0.setAccepts(mayDraw) }) where error != 0 {
      let reason = String(cString: strerror(error))
      tellObservers(.init(moment: system.now, app: id, action: .diagnose(.drawingPagesStay(reason))))
    }
  }

  /// Looks whether it has drawn in background since the last look.
  func noticeDrawing(of resident: Resident) {
    // Each of them is asked: what it was asked for is gone.
    guard resident.buffers.count(where: { $0.takeStray() }) > 0 else { return }
    // After the effects that are being carried out.
    Task { try? self.post(.app(resident.app.id, .compliance(.hasDrawnInBackground))) }
  }
}
