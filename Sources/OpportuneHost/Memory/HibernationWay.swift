/// How an app is hibernated. (R-LIFE-07)
package enum HibernationWay: Sendable, Hashable {
  /// Frozen, and paged out as far as the kernel takes it. Why there is no other way, where paging out does
  /// not free much either.
  case pagedOut(notBetter: String?)
  /// All that its processes are was written to files by CRIU, which ended them; why it is not paged out.
  case checkpoint(notPagedOut: String)
  /// Ended with its state saved, and started anew with that; why it is not hibernated in a better way.
  case savedState(notBetter: String)

  /// Whether CRIU may be asked for an app.
  package enum Checkpoint: Sendable, Hashable {
    /// The host was not given it: nothing to tell of.
    case unused
    case possible
    case refused(String)
  }

  /// The best that can be. Who is paged out goes on at once and as it was, connections included; a checkpoint
  /// has all of that, but is to be read first; a program that is started anew has what it has saved.
  ///
  /// - Parameters:
  ///   - notPagedOut: what keeps the kernel from taking what the app has in main memory; `nil`: nothing.
  ///   - notSaved: why the app cannot be started anew as it was; `nil`: it can.
  static func best(notPagedOut: String?, checkpoint: Checkpoint, notSaved: String?) -> HibernationWay {
    guard let notPagedOut else { return .pagedOut(notBetter: nil) }
    let noCheckpoint: String? =
      switch checkpoint {
      case .possible: nil
      case .unused: ""
      case .refused(let why): "no checkpoint of it is made: \(why)"
      }
    guard let noCheckpoint else { return .checkpoint(notPagedOut: notPagedOut) }
    guard let notSaved else {
      return .savedState(notBetter: notPagedOut + (noCheckpoint.isEmpty ? "" : "; " + noCheckpoint))
    }
    let notSavedText = "its state is not saved: \(notSaved)"
    return .pagedOut(notBetter: noCheckpoint.isEmpty ? notSavedText : noCheckpoint + "; " + notSavedText)
  }

  /// As entries have it.
  package enum Name: String, Sendable, Hashable, Codable {
    case pagedOut = "paged out"
    /// The kernel has taken nothing of note.
    case frozen
    case checkpoint
    case savedState = "saved state"
  }
}
