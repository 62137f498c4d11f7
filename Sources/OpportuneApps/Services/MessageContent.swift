import Foundation

/// A value as the content of a message, for receivers that know its type by the message's kind. (R-MSG-02)
///
/// It is JSON under the key `content`, so a push can carry one too: `{"app":…,"kind":…,"payload":{"content":"{…}"}}`.
extension Message {
  /// - Throws: ``MessageContentError`` for what JSON cannot say.
  public init(
    _ kind: String, content: some Encodable, origin: Origin = .push
  ) throws(MessageContentError) {
    do {
      let encoder = JSONEncoder()
      encoder.outputFormatting = .sortedKeys
      let text = String(decoding: try encoder.encode(content), as: UTF8.self)
      self.init(kind, payload: ["content": text], origin: origin)
    } catch {
      throw MessageContentError(kind: kind, type: "\(type(of: content))", reason: "\(error)")
    }
  }

  /// - Throws: ``MessageContentError`` where the message has none, or of another type.
  public func content<Content: Decodable>(as type: Content.Type = Content.self) throws(MessageContentError) -> Content {
    guard let text = payload["content"] else {
      throw MessageContentError(kind: kind, type: "\(type)", reason: "it has no content")
    }
    do {
      return try JSONDecoder().decode(type, from: Data(text.utf8))
    } catch {
      throw MessageContentError(kind: kind, type: "\(type)", reason: "\(error)")
    }
  }
}

/// The content of a message is not of the type that was expected.
public struct MessageContentError: Error, Sendable, Hashable, CustomStringConvertible {
  /// Of the message.
  public let kind: String
  public let type: String
  public let reason: String

  public var description: String { "a message of kind '\(kind)': no content of type \(type): \(reason)" }
}
