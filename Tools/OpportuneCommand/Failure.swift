/// A failure of a command while it ran: printed without the usage, exit status 1. An invalid call is a
/// `ValidationError`: printed with the usage, exit status 64.
struct Failure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
