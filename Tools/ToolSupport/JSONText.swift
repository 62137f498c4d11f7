import FoundationEssentials

/// A document of a tool as JSON: keys in order, so that two runs can be compared line by line, and a line
/// feed at the end.
package func jsonText(
  of document: some Encodable, indented: Bool = true, snakeCase: Bool = false
) throws -> String {
  let encoder = JSONEncoder()
  encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
  if indented { encoder.outputFormatting.insert(.prettyPrinted) }
  if snakeCase { encoder.keyEncodingStrategy = .convertToSnakeCase }
  return String(decoding: try encoder.encode(document), as: UTF8.self) + "\n"
}
