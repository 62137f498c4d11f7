import Glibc
internal import OpportuneBase

/// Drawing buffers of live apps. (R-GFX-03, R-RULE-02)
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
      let reason = errorText(error)
      tellObservers(.init(moment: system.now, app: id, action: .diagnose(.drawingPagesStay(reason))))
    }
  }

  /// Checks whether the app has drawn in the background since the last check.
  func noticeDrawing(of resident: Resident) {
    // Every buffer must be asked, since the question resets its flag.
    guard resident.buffers.count(where: { $0.takeStray() }) > 0 else { return }
    // Posted after the current effects.
    soon { [id = resident.app.id] in try? $0.post(.app(id, .drewInBackground)) }
  }
}
