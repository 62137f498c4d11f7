internal import Glibc

/// What the C library says of an `errno`.
package func errorText(_ number: Int32) -> String { String(cString: strerror(number)) }
