/// The end of an app's I/O. (R-FTS-07)
///
/// Queued requests end, and so do those in flight that only receive data. Writes that the kernel has accepted
/// run to their end. When none of them is in flight any more, the app's descriptors are closed, and then the
/// app has ended.
///
/// Invariant: `AppEntry.toEnded` is called when no inline call is inside the app's gate, no request that
/// delays the end is in flight, and no close of the app is outstanding.
///
/// Stateless. Reactor's thread only.
final class AppTermination {
  private let path: RequestPath
  private let queues: DeviceQueues
  private let closer: DescriptorCloser
  private let submissions: SubmissionQueue

  init(
    _ path: RequestPath, _ queues: DeviceQueues, _ closer: DescriptorCloser, _ submissions: SubmissionQueue
  ) {
    self.path = path
    self.queues = queues
    self.closer = closer
    self.submissions = submissions
    path.appIsQuieter = { [unowned self] app in appIsQuieter(app) }
  }

  /// - Parameter body: called when the app has ended, on the reactor's thread.
  func terminate(_ app: AppEntry, then body: @escaping () -> Void) {
    if app.toTerminated(then: body) {
      _ = app.inline.gate.close()
      if app.inline.gate.isBusy {
        app.toAwaitingInlineCalls()
        submissions.addOutstanding()
      }
      for watch in app.watches { watch.stop() }
      path.endRequests(of: app)
    }
    appIsQuieter(app)
  }

  /// Called when the last inline call has left that was inside when the app was terminated.
  func inlineCallsHaveLeft(_ app: AppEntry) {
    guard app.awaitsInlineCalls else { return }
    app.inlineCallsHaveLeft()
    submissions.removeOutstanding()
    appIsQuieter(app)
  }

  private func appIsQuieter(_ app: AppEntry) {
    guard app.isTerminated, !app.awaitsInlineCalls, !app.inFlight.contains(where: \.isFinishedAtTermination)
    else { return }
    closeDescriptors(of: app)
    guard app.closes == 0, !app.inFlight.contains(where: \.holdsUpTheEnd) else { return }
    app.toEnded()
  }

  /// Closes each descriptor when nothing is in flight on it any more. A read that hangs keeps only its own
  /// descriptor open.
  private func closeDescriptors(of app: AppEntry) {
    for descriptor in app.descriptors.takeAll() {
      app.closeBegins()
      path.close(descriptor, of: app) { [self] in
        closer.close(descriptor, as: queues.ioClass(of: app, on: .network)) { [self] in
          app.closeEnds()
          appIsQuieter(app)
        }
      }
    }
  }
}
