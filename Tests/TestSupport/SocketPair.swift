import Foundation

/// Two connected sockets; the caller closes them.
public func socketPair(_ kind: __socket_type = SOCK_STREAM) throws -> (Int32, Int32) {
  var ends: [Int32] = [-1, -1]
  guard socketpair(AF_UNIX, Int32(kind.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
    throw POSIXError(POSIXError.Code(rawValue: errno) ?? .EIO)
  }
  return (ends[0], ends[1])
}
