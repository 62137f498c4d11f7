import Foundation
import TestSupport
import Testing

/// docs/api.md, docs/sharing.md and docs/targets.md show the marked parts of the files beside this one, which
/// are compiled, and no other.
@Suite(.bounded) struct PageTests {
  private struct Section {
    var types: [String] = []
    var name: String?
    var code = ""
  }

  private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()

  /// By name, without their indentation.
  private func examples() throws -> [String: String] {
    var result: [String: String] = [:]
    for file in try FileManager.default.contentsOfDirectory(at: Self.folder, includingPropertiesForKeys: nil)
    where file.lastPathComponent.hasSuffix("Examples.swift") {
      var name: String?
      var lines: [Substring] = []
      for line in try String(contentsOf: file, encoding: .utf8).split(
        separator: "\n", omittingEmptySubsequences: false)
      {
        let text = line.trimmingCharacters(in: .whitespaces)
        if text.hasPrefix("// docs: ") {
          name = String(text.dropFirst(9))
          lines = []
        } else if text == "// end", let found = name {
          let indentation = lines.filter { !$0.isEmpty }.map { $0.prefix { $0 == " " }.count }.min() ?? 0
          #expect(result[found] == nil, "\(found) is there twice")
          result[found] = lines.map { $0.dropFirst(indentation) }.joined(separator: "\n")
          name = nil
        } else if name != nil {
          lines.append(line)
        }
      }
    }
    return result
  }

  private func sections(of name: String = "api.md") throws -> [Section] {
    let page = Self.folder.appending(path: "../../docs/\(name)").standardizedFileURL
    var result: [Section] = []
    var code: [Substring]?
    for line in try String(contentsOf: page, encoding: .utf8).split(
      separator: "\n", omittingEmptySubsequences: false)
    {
      if line.hasPrefix("### ") {
        let names = line.split(separator: "`", omittingEmptySubsequences: false)
        result.append(Section(types: names.indices.filter { $0 % 2 == 1 }.map { String(names[$0]) }))
      } else if line.hasPrefix("<!-- docs: "), line.hasSuffix(" -->"), !result.isEmpty {
        result[result.count - 1].name = String(line.dropFirst(11).dropLast(4))
      } else if line == "```swift" {
        code = []
      } else if line == "```", let found = code, !result.isEmpty {
        result[result.count - 1].code = found.joined(separator: "\n")
        code = nil
      } else {
        code?.append(line)
      }
    }
    return result
  }

  @Test func theReadmeShowsTheServerThatIsBuilt() throws {
    let top = Self.folder.appending(path: "../..").standardizedFileURL
    let readme = try String(contentsOf: top.appending(path: "README.md"), encoding: .utf8)
    let example = try String(
      contentsOf: top.appending(path: "docs/examples/SearchServer/main.swift"), encoding: .utf8)
    #expect(readme.contains("```swift\n\(example)```\n"))
  }

  @Test func thePagesShowWhatIsCompiled() throws {
    let examples = try examples()
    let sections = try sections() + sections(of: "sharing.md") + sections(of: "targets.md")
    for section in sections {
      let name = try #require(section.name, "\(section.types) has no example")
      #expect(section.code == examples[name], "\(name) on the page and in the tests")
    }
    #expect(Set(sections.compactMap(\.name)) == Set(examples.keys))
  }

  @Test func eachTypeIsInItsExampleAndTheyAreFew() throws {
    let sections = try sections()
    for section in sections {
      #expect(!section.types.isEmpty)
      for type in section.types { #expect(section.code.contains(type), "\(type) is not in its example") }
    }
    let types = sections.flatMap(\.types)
    #expect(types.count <= 60)
    #expect(Set(types).count == types.count)
  }
}
