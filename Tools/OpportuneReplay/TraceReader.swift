import Foundation
import GRDB
import OpportuneApps

/// A trace that cannot be read.
package enum TraceError: Error, Sendable, Hashable, CustomStringConvertible {
  case missing(String)
  /// What it is instead.
  case notAFile(String, String)
  case compressed(String)
  case notADatabase(String, String)
  case unknownFormat(String, known: [String])
  case damaged(String, String)
  /// The name of the file that changes are in which belong to it.
  case unfinished(String, String)

  package var description: String {
    switch self {
    case .missing(let path): "'\(path)' cannot be read: no such file, or no right to it"
    case .notAFile(let path, let kind):
      "'\(path)' is \(kind), expected a file (a database is read in no order)"
    case .compressed(let path): "'\(path)' is compressed; unpack it first: gunzip -k '\(path)'"
    case .notADatabase(let path, let reason): "'\(path)' is no SQLite database: \(reason)"
    case .unknownFormat(let path, let known):
      "'\(path)' has none of the known formats: \(known.joined(separator: ", "))"
    case .damaged(let path, let reason): "'\(path)' cannot be read to its end: \(reason)"
    case .unfinished(let path, let changes):
      "'\(path)' cannot be read where it is: changes that belong to it are in '\(changes)', and SQLite reads them only in a "
        + "folder that can be written; copy both files to one"
    }
  }
}

/// A format of recordings.
protocol TraceFormat: Sendable {
  var name: String { get }
  /// A database that has this table is of this format.
  var table: String { get }
  func read(_ database: Database) throws -> Trace
}

package enum TraceReader {
  static let formats: [any TraceFormat] = [PowerLog(), AndroidUsage(), ScreenTime(), DesktopFocus()]

  package static var formatNames: [String] { formats.map(\.name) }

  /// Reads a recording; its format is known by its tables. The file is opened for reading only.
  ///
  /// - Throws: ``TraceError``.
  package static func read(_ path: String) throws(TraceError) -> Trace {
    let head = try head(of: path)
    if head.starts(with: [0x1f, 0x8b]) { throw TraceError.compressed(path) }
    do {
      return try read(path, from: path)
    } catch let error as DatabaseError where [.SQLITE_CANTOPEN, .SQLITE_READONLY].contains(error.resultCode) {
      return try readAlone(path, head, error)
    } catch {
      throw traceError(error, path)
    }
  }

  /// A database in WAL mode is read with the help of two files beside it. Where these cannot be made, nobody
  /// can be writing it either; it is all there is unless there are changes in one of them.
  private static func readAlone(_ path: String, _ head: Data, _ error: DatabaseError) throws(TraceError)
    -> Trace
  {
    for changes in ["-wal", "-journal"].map({ path + $0 }) {
      var status = stat()
      if stat(changes, &status) == 0, status.st_size > 0 { throw .unfinished(path, changes) }
    }
    // The versions of the format that it is read and written with: 2 is WAL.
    guard head.count == 20, head[18] == 2 || head[19] == 2 else { throw traceError(error, path) }
    do {
      var trace = try read(path, from: URL(fileURLWithPath: path).absoluteString + "?immutable=1")
      trace.notes.insert(
        "opened as a file that nobody writes (immutable): SQLite can make no files beside it", at: 0)
      return trace
    } catch {
      throw traceError(error, path)
    }
  }

  private static func read(_ path: String, from name: String) throws -> Trace {
    var configuration = Configuration()
    configuration.readonly = true
    return try DatabaseQueue(path: name, configuration: configuration).read { database in
      for format in formats where try database.tableExists(format.table) {
        var trace = try format.read(database)
        trace.sort()
        trace.endSilences()
        return trace
      }
      throw TraceError.unknownFormat(path, known: formatNames)
    }
  }

  private static func traceError(_ error: any Error, _ path: String) -> TraceError {
    switch error {
    case let error as TraceError: error
    case let error as DatabaseError where error.resultCode == .SQLITE_NOTADB:
      .notADatabase(path, error.message ?? "\(error.resultCode)")
    default: .damaged(path, "\(error)")
    }
  }

  /// The first bytes. Whatever is no file is refused at once: a pipe would be waited for.
  private static func head(of path: String) throws(TraceError) -> Data {
    var status = stat()
    guard stat(path, &status) == 0 else { throw .missing(path) }
    switch status.st_mode & S_IFMT {
    case S_IFREG: break
    case S_IFDIR: throw .notAFile(path, "a folder")
    case S_IFIFO: throw .notAFile(path, "a pipe")
    case S_IFSOCK: throw .notAFile(path, "a socket")
    default: throw .notAFile(path, "a device")
    }
    guard let file = FileHandle(forReadingAtPath: path) else { throw .missing(path) }
    defer { try? file.close() }
    return (try? file.read(upToCount: 20)) ?? Data()
  }
}

extension Row {
  /// What a cell holds, or nil where that is something else: a subscript of GRDB's would trap on it.
  func value<Value: DatabaseValueConvertible>(_ column: String, as type: Value.Type) -> Value? {
    let cell: DatabaseValue? = self[column]
    return cell.flatMap { Value.fromDatabaseValue($0) }
  }

  /// A time that a clock may have said; nil for others, and for what is none.
  func seconds(_ column: String, perSecond: Double = 1) -> Double? {
    value(column, as: Double.self).map { $0 / perSecond }.flatMap { abs($0) < 1e11 ? $0 : nil }
  }
}

/// 2001-01-01 in seconds since 1970.
let appleEpoch = 978_307_200.0
