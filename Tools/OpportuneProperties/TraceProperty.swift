import Foundation
import OpportuneBase
import OpportuneFuzz
import OpportuneLocation
import OpportuneTraces

/// Recorded ways as GPX, NMEA and tables with a known meaning, and damaged ones.
struct TraceProperty: DocumentProperty {
  let name = "trace"
  let summary =
    "A recorded trace, as GPX, NMEA or a table, is read as the fixes that it was made of; whatever is read has fixes "
    + "within their limits and in the order of their times; nothing traps."
  var read: @Sendable (Data) throws -> LocationTrace = { try LocationTrace.read($0) }

  static let words = [
    "$GNRMC,", "$GPGGA,", "*00", "<trkpt lat=\"1\" lon=\"2\">", "</trkpt>",
    "<time>2020-01-01T00:00:00Z</time>", "<gpx",
    "<!DOCTYPE a [<!ENTITY b \"c\">]>", "&b;", ",,,,", "\n", "2019.11.20_16.55.16",
    "timestamp,latitude,longitude\n",
    "nan", "inf", "\"", "+14:00",
  ]

  static let bytesMade = 4...80

  static let fixtures: [[UInt8]] = (0..<12).map { seed in
    var generator = SplitMix64(seed: UInt64(seed))
    var bytes = ByteSource([UInt8(seed % 3)] + generator.bytes(24))
    return Array(MadeTrace(&bytes).text.utf8)
  }

  func check(document: Data) throws(Violation) {
    if let trace = try trace(of: document) { try judge(trace) }
  }

  func check(madeFrom bytes: inout ByteSource, _ log: inout StepLog) throws(Violation) {
    let made = MadeTrace(&bytes)
    log.note("read: \(made.text)")
    guard let trace = try trace(of: Data(made.text.utf8)) else { throw Violation("it is refused") }
    try judge(trace)
    try compare(trace, made)
  }

  private func trace(of data: Data) throws(Violation) -> LocationTrace? {
    do { return try read(data) } catch {
      guard error is LocationTrace.Failure else { throw Violation("the error is no Failure: \(error)") }
      return nil
    }
  }

  private func judge(_ trace: LocationTrace) throws(Violation) {
    guard let first = trace.fixes.first, let last = trace.fixes.last, trace.start.isFinite,
      first.time == .zero
    else {
      throw Violation("it has no fixes, or does not begin with the first")
    }
    for (before, after) in zip(trace.fixes, trace.fixes.dropFirst()) where before.time >= after.time {
      throw Violation("fixes are at \(before.time) and then at \(after.time)")
    }
    for fix in trace.fixes {
      guard (-90...90).contains(fix.position.latitude), (-180...180).contains(fix.position.longitude),
        fix.accuracy.standardDeviation > 0, fix.speed.map({ (0...1e5).contains($0) }) ?? true,
        fix.altitude.map({ $0.metres.isFinite && $0.standardDeviation > 0 }) ?? true
      else { throw Violation("a fix at \(fix.time) is out of range") }
    }
    for (before, after) in zip(trace.cells, trace.cells.dropFirst()) where before.time > after.time {
      throw Violation("cells are at \(before.time) and then at \(after.time)")
    }
    guard last.time.seconds < 5000 else { return }
    do {
      let dense = try trace.everySecond()
      guard dense.fixes.count <= Int(last.time.seconds) + 1 + trace.fixes.count else {
        throw Violation("\(dense.fixes.count) fixes of \(last.time.seconds) seconds")
      }
    } catch let error as Violation { throw error } catch {
      throw Violation("it has no fix each second: \(error)")
    }
  }

  private func compare(_ trace: LocationTrace, _ made: MadeTrace) throws(Violation) {
    guard trace.fixes.count == made.points.count, abs(trace.start - made.points[0].seconds) < 1e-3 else {
      throw Violation("\(trace.fixes.count) fixes from \(trace.start) on, of \(made.points.count)")
    }
    for (fix, point) in zip(trace.fixes, made.points) {
      guard abs(fix.position.latitude - point.latitude) < 1e-7,
        abs(fix.position.longitude - point.longitude) < 1e-7,
        abs(fix.time.seconds - (point.seconds - made.points[0].seconds)) < 1e-5
      else { throw Violation("the fix at \(fix.time) is not what was written for \(point.seconds)") }
      guard let height = point.height else { continue }
      guard let altitude = fix.altitude, abs(altitude.metres - height) < 1e-3 else {
        throw Violation("the fix at \(fix.time) is not at the height that was written")
      }
    }
  }
}

/// Points and how a recording of them looks.
struct MadeTrace {
  struct Point {
    var seconds: Double
    var latitude: Double
    var longitude: Double
    var height: Double?
  }

  let points: [Point]
  let text: String

  /// 2020-02-29T23:59:30Z: days, months and years that end are near.
  private static let starts = [1_583_020_770, 1_577_836_790, 951_868_790, 1_709_251_190]

  init(_ bytes: inout ByteSource) {
    let format = bytes.below(3)
    var seconds = bytes.choice(Self.starts)
    let count = 1 + bytes.below(16)
    points = (0..<count).map { _ in
      seconds += 1 + bytes.below(20)
      let corner = bytes.below(8)
      // In NMEA's ten-thousandths of a minute, so that all formats can say it.
      let latitude = corner == 0 ? 5_400 * 10_000 : bytes.below(65_536) * 823
      let longitude = corner == 1 ? 10_800 * 10_000 : bytes.below(65_536) * 1647
      let sides = bytes.byte()
      return Point(
        seconds: Double(seconds), latitude: Double(latitude) / 600_000 * (sides & 1 == 0 ? 1 : -1),
        longitude: Double(longitude) / 600_000 * (sides & 2 == 0 ? 1 : -1),
        height: sides & 4 == 0 ? Double(bytes.below(9000)) - 400 : nil)
    }
    let end = bytes.flag() ? "\r\n" : "\n"
    text =
      switch format {
      case 0: Self.track(points, end)
      case 1: Self.sentences(points, end)
      default: Self.table(points, end)
      }
  }

  private static func track(_ points: [Point], _ end: String) -> String {
    let all = points.map { point in
      let height = point.height.map { "<ele>\($0)</ele>" } ?? ""
      return
        "<trkpt lat=\"\(point.latitude)\" lon=\"\(point.longitude)\">\(height)<time>\(time(point.seconds))</time></trkpt>"
    }
    return
      "<?xml version=\"1.0\"?><gpx version=\"1.1\"><trk><trkseg>\(end)\(all.joined(separator: end))</trkseg></trk></gpx>"
  }

  private static func table(_ points: [Point], _ end: String) -> String {
    let rows = points.map { point in
      "\(Int(point.seconds)),\(point.latitude),\(point.longitude),\(point.height.map { "\($0)" } ?? "")"
    }
    return "time,latitude,longitude,altitude\(end)" + rows.joined(separator: end)
  }

  private static func sentences(_ points: [Point], _ end: String) -> String {
    points.flatMap { point -> [String] in
      let (year, month, day) = date(Int(point.seconds) / 86_400)
      let time = clock(Int(point.seconds) % 86_400, "")
      let place =
        "\(angle(point.latitude, 2)),\(point.latitude < 0 ? "S" : "N"),\(angle(point.longitude, 3)),\(point.longitude < 0 ? "W" : "E")"
      let height = point.height.map { "\($0),M,0.0,M" } ?? ",M,,M"
      return [
        sentence("GPRMC,\(time),A,\(place),0.0,0.0,\(two(day))\(two(month))\(two(year % 100)),,,A"),
        sentence("GPGGA,\(time),\(place),1,08,0.9,\(height),,"),
      ]
    }.joined(separator: end)
  }

  private static func sentence(_ body: String) -> String {
    let sum = String(body.utf8.reduce(UInt8(0), ^), radix: 16, uppercase: true)
    return "$\(body)*\(sum.count == 1 ? "0" : "")\(sum)"
  }

  private static func angle(_ degrees: Double, _ width: Int) -> String {
    let units = Int((abs(degrees) * 600_000).rounded())
    func wide(_ number: Int, _ width: Int) -> String {
      let digits = String(number)
      return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
    return "\(wide(units / 600_000, width))\(wide(units / 10_000 % 60, 2)).\(wide(units % 10_000, 4))"
  }

  private static func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

  private static func clock(_ second: Int, _ between: String) -> String {
    [second / 3600, second / 60 % 60, second % 60].map(two).joined(separator: between)
  }

  private static func time(_ seconds: Double) -> String {
    let (year, month, day) = date(Int(seconds) / 86_400)
    return "\(year)-\(two(month))-\(two(day))T\(clock(Int(seconds) % 86_400, ":"))Z"
  }

  /// Of a day since 1970, counted year by year: not the way in which the reader does it.
  private static func date(_ days: Int) -> (year: Int, month: Int, day: Int) {
    var (year, left) = (1970, days)
    func isLeap(_ year: Int) -> Bool { year % 4 == 0 && year % 100 != 0 || year % 400 == 0 }
    while left >= (isLeap(year) ? 366 : 365) {
      left -= isLeap(year) ? 366 : 365
      year += 1
    }
    let lengths = [31, isLeap(year) ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    var month = 0
    while left >= lengths[month] {
      left -= lengths[month]
      month += 1
    }
    return (year, month + 1, left + 1)
  }
}
