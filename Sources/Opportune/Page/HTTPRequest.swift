/// A request of HTTP/1.1 without a body, as far as ``LocalSite`` looks at it.
package struct HTTPRequest: Sendable, Hashable {
  package var method: String
  package var path: String
  /// The token that it brings, in its address or in a field.
  package var token: String?

  /// In bytes; and lines of one request.
  package static let longestLine = 8192
  package static let mostLines = 100

  /// What is none.
  package static let malformed = HTTPRequest(method: "", path: "", token: nil)

  package init(method: String, path: String, token: String?) {
    (self.method, self.path, self.token) = (method, path, token)
  }

  /// - Parameter lines: the request line and the fields.
  package init(_ lines: [String]) {
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
package struct HTTPAnswer: Sendable, Hashable {
  package var status: String
  package var type: String
  package var fields: [String]
  package var body: String
  /// As to HEAD.
  package var lacksBody = false

  package init(
    status: String, type: String = "text/plain; charset=utf-8", fields: [String] = [], body: String
  ) {
    (self.status, self.type, self.fields, self.body) = (status, type, fields, body)
  }

  package var bytes: [UInt8] {
    let head = [
      "HTTP/1.1 \(status)", "Content-Type: \(type)", "Content-Length: \(body.utf8.count)",
      "Connection: close", "Cache-Control: no-store", "X-Content-Type-Options: nosniff",
      "Referrer-Policy: no-referrer",
    ]
    return Array(((head + fields).joined(separator: "\r\n") + "\r\n\r\n" + (lacksBody ? "" : body)).utf8)
  }
}
