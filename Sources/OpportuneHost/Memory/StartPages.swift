internal import COpportuneHost

/// What a host has mapped of its program and its libraries to start.
package enum StartPages {
  /// Lets go of it: what the host needs again comes from the kernel's cache of files at the next use, and
  /// most is never needed again. Any thread; takes some milliseconds.
  ///
  /// - Returns: bytes of code and constants, resident before or not.
  @discardableResult package static func giveBack() -> UInt64 { opp_host_give_back_program() }
}
