internal import Glibc
import OpportuneBase

/// A system call of a tool failed: the description says what is not there for it, and the kernel's reason.
package struct SystemFailure: Error, CustomStringConvertible {
  package let description: String

  package init(_ what: String, _ number: Int32 = errno) {
    description = "\(what): \(errorText(number))"
  }
}
