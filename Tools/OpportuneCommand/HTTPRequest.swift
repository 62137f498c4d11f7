/// A request of HTTP/1.1 without a body, as far as ``AppsSite`` looks at it.
struct HTTPRequest: Hashable {
  var method: String
  var path: String
  /// The token that it brings, in its address or in a field.
  var token: String?

  /// In bytes; and lines of one request.
  static let longestLine = 8192
  static let mostLines = 100

  /// What is none.
  static let malformed = HTTPRequest(method: "", path: "", token: nil)

  init(method: String, path: String, token: String?) {
    (self.method, self.path, self.token) = (method, path, token)
  }

  /// - Parameter lines: the request line and the fields.
  init(_ lines: [String]) {
    let words = (lines.first ?? "").split(separator: " ", omittingEmptySubsequences: false)
    guard words.count == 3, words[2].hasPrefix("HTTP/1."), words[1].hasPrefix("/") else {
      self = .malformed
      return
    }
    let parts = words[1].split(separator: "?", maxSplits: 1)
    let query = parts.count > 1 ? parts[1].split(separator: "&") : []
    let named = query.first { $0.hasPrefix("token=") }?.dropFirst("token=".count)
    let borne = lines.dropFirst().lazy.compactMap(Self.bearer(_:)).first
    self.init(
      method: String(words[0]), path: String(parts.first ?? "/"), token: (named ?? borne).map { String($0) })
  }

  private static func bearer(_ field: String) -> Substring? {
    guard let colon = field.firstIndex(of: ":"), field[..<colon].lowercased() == "authorization" else {
      return nil
    }
    let words = field[field.index(after: colon)...].split(separator: " ")
    return words.count == 2 && words[0].lowercased() == "bearer" ? words[1] : nil
  }
}

/// An answer, after which the connection is closed.
struct HTTPAnswer: Hashable {
  var status: String
  var type = "text/plain; charset=utf-8"
  var fields: [String] = []
  var body: String
  /// As to HEAD.
  var lacksBody = false

  var bytes: [UInt8] {
    let head = [
      "HTTP/1.1 \(status)", "Content-Type: \(type)", "Content-Length: \(body.utf8.count)",
      "Connection: close", "Cache-Control: no-store", "X-Content-Type-Options: nosniff",
      "Referrer-Policy: no-referrer",
    ]
    return Array(((head + fields).joined(separator: "\r\n") + "\r\n\r\n" + (lacksBody ? "" : body)).utf8)
  }
}
