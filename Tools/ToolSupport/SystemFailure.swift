internal import Glibc
import OpportuneBase

/// A failed system call of a tool: the description says what is missing because of it, and the kernel's
/// reason.
package struct SystemFailure: Error, CustomStringConvertible {
  package let description: String

  package init(_ what: String, _ number: Int32 = errno) {
    description = "\(what): \(errorText(number))"
  }
}
