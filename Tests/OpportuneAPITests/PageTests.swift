import Foundation
import TestSupport
import Testing

/// docs/api.md, docs/sharing.md and docs/targets.md show the marked parts of the files beside this one, which
/// are compiled, and no other; README.md and the pages of docs/guide whole files of docs/examples.
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

  @Test func whatIsSaidOfHummingbirdShowsTheServerThatIsBuilt() throws {
    let top = Self.folder.appending(path: "../..").standardizedFileURL
    func text(_ path: String) throws -> String {
      try String(contentsOf: top.appending(path: path), encoding: .utf8)
    }
    let sources = "Integrations/OpportuneNIO/Sources"
    let example = try text("\(sources)/ServerInFront/main.swift")
    for page in ["docs/guide/servers.md", "\(sources)/OpportuneNIO/OpportuneNIO.docc/OpportuneNIO.md"] {
      #expect(try text(page).contains("```swift\n\(example)```\n"), "\(page)")
    }
  }

  @Test func eachPageOfTheGuideShowsItsProgram() throws {
    let docs = Self.folder.appending(path: "../../docs").standardizedFileURL
    let names = try FileManager.default.contentsOfDirectory(
      atPath: docs.appending(path: "examples/Guide").path
    )
    .filter { $0 != "main.swift" }
    #expect(!names.isEmpty)
    let list = try String(contentsOf: docs.appending(path: "README.md"), encoding: .utf8)
    for name in names {
      let file = "examples/Guide/\(name)"
      let page = "guide/\(name.replacing(".swift", with: "").lowercased()).md"
      let text = try String(contentsOf: docs.appending(path: page), encoding: .utf8)
      let program = try String(contentsOf: docs.appending(path: file), encoding: .utf8)
      #expect(text.contains("`docs/\(file)`"), "\(page) does not name \(file)")
      #expect(text.contains("<!-- example -->\n```swift\n\(program)```\n"), "\(page) and \(file)")
      #expect(text.ranges(of: "```swift").count == 1, "\(page) shows what is not built")
      #expect(list.contains("(\(page))"), "docs/README.md does not list \(page)")
    }
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
