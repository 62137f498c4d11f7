import COpportuneChecked
import COpportuneExplorer

/// A small program that is explored to the end within bounds.
///
/// `@unchecked Sendable`: it points to a constant of the C side.
package struct World: @unchecked Sendable {
  let raw: UnsafePointer<oppx_world>

  package var name: String { String(cString: raw.pointee.name) }
  package var target: String { String(cString: raw.pointee.target) }
  package var program: String { String(cString: raw.pointee.program) }
  /// To be explored to its end by every run of the tests; the others for a moment.
  package var isQuick: Bool { raw.pointee.quick }

  package static let all: [World] = {
    var count = 0
    let list = checked_worlds(&count)
    return (0..<count).map { World(raw: list + $0) }
  }()
}

/// A program whose outcome the language allows or forbids: what the explorer itself is checked by.
///
/// `@unchecked Sendable`: it points to a constant of the C side.
package struct LitmusTest: @unchecked Sendable {
  let raw: UnsafePointer<checked_litmus_test>

  package var name: String { String(cString: raw.pointee.name) }
  package var isAllowed: Bool { raw.pointee.allowed }

  package static let all: [LitmusTest] = {
    var count = 0
    let list = checked_litmus_tests(&count)
    return (0..<count).map { LitmusTest(raw: list + $0) }
  }()

  /// Whether the outcome appears in some execution; all are explored.
  ///
  /// - Throws: ``FuzzError/noMemory``.
  package func appears() throws(FuzzError) -> Bool {
    guard let explorer = oppx_create() else { throw .noMemory }
    defer { oppx_destroy(explorer) }
    var figures = oppx_figures()
    return checked_litmus_appears(explorer, raw, &figures)
  }
}
