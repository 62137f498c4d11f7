import GRDB

/// Screen Time of iOS: sums by the hour, so it contains no events.
struct ScreenTime: TraceFormat {
  let name = "ios-screen-time"
  let table = "ZUSAGETIMEDITEM"

  /// Each hour of a user is there for each device, and once more for all devices together (which name none).
  /// The latter counts only where no device has that hour.
  private static let query = """
    SELECT block.ZSTARTDATE, block.ZDURATIONINMINUTES, item.ZBUNDLEIDENTIFIER, item.ZTOTALTIMEINSECONDS
    FROM ZUSAGETIMEDITEM AS item
    JOIN ZUSAGECATEGORY AS category ON category.Z_PK = item.ZCATEGORY
    JOIN ZUSAGEBLOCK AS block ON block.Z_PK = category.ZBLOCK
    JOIN ZUSAGE AS usage ON usage.Z_PK = block.ZUSAGE
    WHERE usage.ZDEVICE IS NOT NULL OR (block.ZSTARTDATE, ifnull(usage.ZUSER, 0)) NOT IN (
      SELECT other.ZSTARTDATE, ifnull(its.ZUSER, 0) FROM ZUSAGEBLOCK AS other JOIN ZUSAGE AS its ON its.Z_PK = other.ZUSAGE
      WHERE its.ZDEVICE IS NOT NULL AND other.ZSTARTDATE IS NOT NULL)
    ORDER BY block.ZSTARTDATE, item.Z_PK
    """

  func read(_ database: Database) throws -> Trace {
    var trace = Trace(format: name)
    for row in try Row.fetchAll(database, sql: Self.query) {
      guard let start = row.seconds("ZSTARTDATE"), let app = row.value("ZBUNDLEIDENTIFIER", as: String.self),
        let seconds = row.seconds("ZTOTALTIMEINSECONDS"), seconds >= 0
      else { continue }
      let minutes =
        row.value("ZDURATIONINMINUTES", as: Double.self).flatMap { (0...1e6).contains($0) ? $0 : nil } ?? 60
      trace.sums.append(
        Trace.UsageSum(at: start + appleEpoch, app: app, seconds: seconds, length: minutes * 60))
    }
    return trace
  }
}
