/// How an app is hibernated. (R-LIFE-07)
package enum HibernationWay: Sendable, Hashable {
  /// Frozen, and paged out as far as the kernel takes it. Why its saved state would not do, where paging out
  /// does not either.
  case pagedOut(notSaved: String?)
  /// Ended with its state saved, and started anew with that; why it is not paged out.
  case savedState(notPagedOut: String)

  /// The best that can be. Who is paged out goes on as it was, so that is the better.
  ///
  /// - Parameters:
  ///   - notPagedOut: what keeps the kernel from taking what the app has in main memory; `nil`: nothing.
  ///   - notSaved: why the app cannot be started anew as it was; `nil`: it can.
  static func best(notPagedOut: String?, notSaved: String?) -> HibernationWay {
    guard let notPagedOut else { return .pagedOut(notSaved: nil) }
    guard let notSaved else { return .savedState(notPagedOut: notPagedOut) }
    return .pagedOut(notSaved: notSaved)
  }

  /// As entries have it.
  package enum Name: String, Sendable, Hashable, Codable {
    case pagedOut = "paged out"
    case savedState = "saved state"
  }
}
