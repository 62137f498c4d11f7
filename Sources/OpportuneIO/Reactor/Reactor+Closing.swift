internal import COpportune
import SystemPackage

/// Closes. A descriptor is the process's: what any app has on it ends with it, since the number may be another file's
/// afterwards, whatever carries the requests.
extension Reactor {
  /// Closes a descriptor for its app, when nothing is in flight on it any more, and nobody is at it at once.
  func close(_ request: Request, of app: AppEntry) {
    let descriptor = request.op.fd
    // No descriptor; AT_FDCWD is what requests of paths have there.
    guard descriptor >= 0 else { return send(request) }
    for queued in queuedOnDescriptors.requests(on: descriptor).reversed() where owned(queued.app) === app {
      end(queued, early: .system(.canceled))
    }
    request.phase = .parked
    close(descriptor, of: app) { $0.send(request) }
  }

  /// Ends what is in flight on a descriptor, and calls `body`, which closes it, when the kernel has let go of that.
  func close(_ descriptor: Int32, of app: AppEntry, by body: @escaping (Reactor) -> Void) {
    // What others have queued ends in its turn.
    closedAt[descriptor] = callers.beginClose(of: descriptor)
    closing[descriptor] = (app, body)
    inFlight += 1  // so that this thread does not end before
    app.closes += 1
    for case let other? in apps {
      other.descriptors[descriptor] = nil
      for watch in other.watches { watch.drop(descriptor, at: self) }
    }
    for request in onDescriptors.requests(on: descriptor) {
      request.reason = request.reason ?? .system(.canceled)
      // One by one: all on a descriptor at once, the kernel ends those on its duplicates too.
      if request.firstResult == nil { cancelInKernel(request) } else { letGo(request) }
    }
    closeIfQuiet(descriptor)
  }

  /// Of those who did something at once on a descriptor, or on one that shares its word, when a close of it began.
  func lastHasLeft(_ descriptor: Int32) {
    for other in Array(closing.keys) where CallersByDescriptor.share(descriptor, other) { closeIfQuiet(other) }
  }

  /// Sends a close that has waited for the requests on its descriptor.
  func closeIfQuiet(_ descriptor: Int32) {
    guard let close = closing[descriptor], !callers.isBusy(descriptor), !onDescriptors.isBusy(descriptor)
    else { return }
    closing[descriptor] = nil
    callers.endClose(of: descriptor)
    inFlight -= 1
    close.app.closes -= 1
    close.body(self)
  }

  /// Whether a close of its descriptor has begun since its call has.
  func isOfClosed(_ request: Request) -> Bool {
    guard let at = closedAt[request.op.fd] else { return false }
    return request.closesBefore < at
  }
}
