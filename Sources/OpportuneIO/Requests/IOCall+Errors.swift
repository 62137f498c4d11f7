internal import COpportune

/// Errors of a call, with a message about what it was asked to do.
extension IOCall {
  /// - Parameter done: bytes that were moved before the error.
  func error(_ code: IOError.Code, done: Int = 0) -> IOError {
    var text = "\(Self.names[Int(self.code.rawValue)])"
    switch subject {
    case .none: break
    case .path(let path): text += " of \"\(path)\""
    case .paths(let old, let new): text += " of \"\(old)\" to \"\(new)\""
    case .address(let address): text += " to \(address)"
    }
    if op.fd >= 0 { text += " on descriptor \(op.fd)" }
    if total > 0 { text += ", \(done) of \(total) bytes done" }
    let reason =
      switch code {
      case .system(let errno): "\(errno)"
      case .cancelled: "the task was cancelled"
      case .deadlineExceeded: "the deadline passed" + (limit.map { ", \($0) after the call" } ?? "")
      case .terminated: "the I/O of app \"\(app.name)\" has ended, with the app or the broker"
      case .unavailable: "the broker was shut down"
      case .endOfStream: "the stream ended"
      case .configuration, .bufferInUse, .lineTooLong, .hostNotResolved: "refused"
      }
    return IOError(code, "\(text): \(reason)")
  }

  /// Names by `opp_ring_code`.
  private static let names = [
    "request", "read", "write", "vectored read", "vectored write", "fixed read", "fixed write", "fsync",
    "fdatasync",
    "allocate", "truncate", "open", "close", "stat", "rename", "unlink", "connect", "accept", "accept",
    "send",
    "zero-copy send", "receive", "send of a message", "receive of a message", "shutdown", "poll", "cancel",
    "cancel", "mkdir",
    "request",
  ]
}
