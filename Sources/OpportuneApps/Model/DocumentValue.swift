import Foundation

/// A value of a document, JSON or a property list, before it is decoded to a type.
package enum DocumentValue: Sendable {
  case boolean(Bool)
  case number(Double)
  case string(String)
  case array([DocumentValue])
  case object([String: DocumentValue])
  /// A date, data or null: not used by any known key.
  case other

  /// Converts a value of a property list.
  init(propertyList original: Any) {
    switch original {
    // A number also casts to Bool, but must not become one.
    case let value as Bool where type(of: original) == Bool.self: self = .boolean(value)
    case let value as NSNumber: self = .number(value.doubleValue)
    case let value as String: self = .string(value)
    case let values as [Any]: self = .array(values.map(DocumentValue.init(propertyList:)))
    case let values as [String: Any]: self = .object(values.mapValues(DocumentValue.init(propertyList:)))
    default: self = .other
    }
  }

  /// A description of the value, for error messages.
  package var found: String {
    switch self {
    case .boolean(let value): "the boolean \(value)"
    case .number(let value): "the number \(value)"
    case .string(let value): "the string \(String(value.prefix(40)).debugDescription)"
    case .array(let values): "an array of \(values.count)"
    case .object(let values): "a dictionary of \(values.count)"
    case .other: "neither text, number nor list"
    }
  }
}
