import GRDB

/// The focus records of macOS.
struct DesktopFocus: TraceFormat {
  let name = "desktop-app-focus"
  let table = "ZOBJECT"

  func read(_ database: Database) throws -> Trace {
    var trace = Trace(format: name)
    let rows = try Row.fetchAll(
      database,
      sql:
        "SELECT ZVALUESTRING, ZSTARTDATE, ZENDDATE FROM ZOBJECT WHERE ZSTREAMNAME = '/app/inFocus' ORDER BY ZSTARTDATE, Z_PK"
    )
    for row in rows {
      guard let app = row.value("ZVALUESTRING", as: String.self), let start = row.seconds("ZSTARTDATE"),
        let end = row.seconds("ZENDDATE")
      else { continue }
      trace.inputs.append((start + appleEpoch, .front(app)))
      trace.inputs.append((max(start, end) + appleEpoch, .left(app)))
    }
    return trace
  }
}
