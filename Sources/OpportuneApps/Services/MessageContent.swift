import Foundation

/// Typed message content, for receivers that know the type by the message's kind. (R-MSG-02)
///
/// It is JSON under the key `content`, so a push can carry it too:
/// `{"app":…,"kind":…,"payload":{"content":"{…}"}}`.
extension Message {
  /// - Throws: ``MessageContentError`` for a value that cannot be encoded as JSON.
  public init(
    _ kind: String, content: some Encodable, origin: Origin = .push
  ) throws(MessageContentError) {
    do {
      let encoder = JSONEncoder()
      encoder.outputFormatting = .sortedKeys
      let text = String(decoding: try encoder.encode(content), as: UTF8.self)
      self.init(kind, payload: ["content": text], origin: origin)
    } catch {
      throw MessageContentError(.notEncodable, kind: kind, type: "\(type(of: content))", reason: "\(error)")
    }
  }

  /// - Throws: ``MessageContentError`` where the message has no content, or content of another type.
  public func content<Content: Decodable>(as type: Content.Type = Content.self) throws(MessageContentError)
    -> Content
  {
    guard let text = payload["content"] else {
      throw MessageContentError(.missing, kind: kind, type: "\(type)", reason: "it has no content")
    }
    do {
      return try JSONDecoder().decode(type, from: Data(text.utf8))
    } catch {
      throw MessageContentError(.otherType, kind: kind, type: "\(type)", reason: "\(error)")
    }
  }
}

/// Why a message has no content of the requested type.
///
/// Two errors are equal when their codes are; the rest is for people.
public struct MessageContentError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The kind of error.
  public enum Code: Sendable, Hashable {
    /// The message has no content.
    case missing
    /// The value cannot be encoded as JSON.
    case notEncodable
    /// The content is of another type.
    case otherType
  }

  /// The kind of error.
  public let code: Code
  /// The message's kind.
  public let kind: String
  /// The requested type.
  public let type: String
  /// For people: the message's kind, the type, and the reason.
  public let message: String

  init(_ code: Code, kind: String, type: String, reason: String) {
    self.code = code
    self.kind = kind
    self.type = type
    message = "a message of kind '\(kind)': no content of type \(type): \(reason)"
  }

  public static func == (left: MessageContentError, right: MessageContentError) -> Bool {
    left.code == right.code
  }

  public var description: String { message }
}
