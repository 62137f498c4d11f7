import Foundation
import GRDB
import OpportuneReplay
import TestSupport

/// A database written by a test, in a folder of its own; removed with its last reference.
final class Recording {
  struct Table {
    var name: String
    var columns: [String]
    var rows: [[(any DatabaseValueConvertible)?]]

    init(_ name: String, _ columns: String, _ rows: [[(any DatabaseValueConvertible)?]]) {
      self.name = name
      self.columns = columns.split(separator: " ").map(String.init)
      self.rows = rows
    }
  }

  let folder = FileManager.default.temporaryDirectory.appending(path: "opportune-recording-\(UUID())")
  var path: String { folder.appending(path: "recording.db").path }

  init() throws { try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true) }

  convenience init(_ tables: [Table]) throws {
    try self.init()
    let queue = try DatabaseQueue(path: path)
    try queue.write { database in
      for table in tables {
        try database.execute(sql: "CREATE TABLE \(table.name) (\(table.columns.joined(separator: ", ")))")
        let marks = table.columns.map { _ in "?" }.joined(separator: ", ")
        for row in table.rows {
          try database.execute(
            sql: "INSERT INTO \(table.name) VALUES (\(marks))", arguments: StatementArguments(row))
        }
      }
    }
    try queue.close()
  }

  /// Of the data beside the project.
  convenience init(recorded name: String) throws {
    try self.init()
    try RecordedData.gunzipped(name).write(to: URL(fileURLWithPath: path))
  }

  deinit { try? FileManager.default.removeItem(at: folder) }

  func read() throws -> Trace { try TraceReader.read(path) }
}

extension Trace {
  /// Each input in a few words, for comparing.
  var lines: [String] {
    inputs.map { at, input in
      let what =
        switch input {
        case .front(let app): "front \(app)"
        case .left(let app): "left \(app)"
        case .started(let app): "started \(app)"
        case .assertion(let app, let number, let begins): "\(begins ? "holds" : "lets go") \(app) \(number)"
        case .notification(let app): "notification \(app)"
        case .footprint(let app, let bytes): "footprint \(app) \(bytes)"
        case .power(let supply): "power \(supply)"
        case .shutdown: "shutdown"
        }
      return
        "\(at.formatted(.number.grouping(.never).precision(.fractionLength(0...3)).locale(Locale(identifier: "C")))) \(what)"
    }
  }
}
