import Foundation
import OpportuneApps
import TestSupport
import Testing

@Suite(.bounded) struct PageTests {
  @Test func thePageInTheDocumentsIsTheTable() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let page = try String(contentsOf: root.appendingPathComponent("docs/lifecycle.md"), encoding: .utf8)
    #expect(page == Lifecycle.page(), "write it anew: opportune states --markdown > docs/lifecycle.md")
  }
}
