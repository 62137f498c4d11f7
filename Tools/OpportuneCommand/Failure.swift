/// What went wrong as a command ran: told without the usage, status 1. What is wrong with how it was called
/// is a `ValidationError`: told with the usage, status 64.
struct Failure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
