import Foundation
import FoundationXML

/// Points of a GPX file: position, height, time, dilution.
final class GPXReader: NSObject, XMLParserDelegate {
  private var builder: TraceBuilder
  private var place: (latitude: Double?, longitude: Double?)?
  private var values: [String: String] = [:]
  private var text = ""

  private init(_ builder: TraceBuilder) { self.builder = builder }

  static func read(_ text: String, into builder: inout TraceBuilder) {
    let reader = GPXReader(builder)
    let parser = XMLParser(data: withoutInstructions(text))
    parser.delegate = reader
    parser.shouldResolveExternalEntities = false
    if !parser.parse() { reader.builder.skip("not well-formed") }
    builder = reader.builder
  }

  /// Foundation's parser traps on names that are not UTF-8, which a text's are, and on processing
  /// instructions that say nothing. None says anything here: the encoding that a file declares is not this
  /// one any more.
  private static func withoutInstructions(_ text: String) -> Data {
    var bytes = Data()
    var isInside = false
    var last: UInt8 = 0
    for byte in text.utf8 {
      switch (isInside, last, byte) {
      case (false, UInt8(ascii: "<"), UInt8(ascii: "?")):
        bytes.removeLast()
        isInside = true
        last = 0
      case (true, UInt8(ascii: "?"), UInt8(ascii: ">")):
        isInside = false
        last = 0
      default:
        if !isInside { bytes.append(byte) }
        last = byte
      }
    }
    return bytes
  }

  func parser(
    _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
    attributes: [String: String]
  ) {
    text = ""
    if name == "trkpt" {
      place = (attributes["lat"].flatMap { Double($0) }, attributes["lon"].flatMap { Double($0) })
      values = [:]
    }
  }

  func parser(_ parser: XMLParser, foundCharacters string: String) {
    // What is read is short.
    if text.utf8.count < 200 { text += string }
  }

  func parser(_ parser: XMLParser, didEndElement name: String, namespaceURI: String?, qualifiedName: String?)
  {
    if name == "trkpt", let place {
      builder.add(
        seconds: values["time"].flatMap { TraceTime.seconds($0) }, latitude: place.latitude,
        longitude: place.longitude,
        deviation: values["hdop"].flatMap { Double($0) }.map { max(0.5, $0 * builder.deviation) },
        altitude: values["ele"].flatMap { Double($0) }, speed: values["speed"].flatMap { Double($0) })
      self.place = nil
    } else if place != nil, ["time", "ele", "hdop", "speed"].contains(name) {
      values[name] = text.trimmingCharacters(in: .whitespacesAndNewlines)
    }
    text = ""
  }
}

/// GGA and RMC sentences of NMEA 0183, of any talker, with their checksums. Positions are those of GGA, which
/// says how good they are; of RMC where a recording has nothing else.
enum NMEAReader {
  static func read(_ text: String, into builder: inout TraceBuilder) {
    let lines = text.split(whereSeparator: \.isNewline)
    // Of positions that come before the first date, too.
    var day = lines.lazy.compactMap { fields($0).flatMap(date) }.first
    let hasGGA = lines.contains { $0.dropFirst(3).hasPrefix("GGA,") }
    var lastOfDay = 0.0
    var speed: (ofDay: Double, value: Double)?
    for line in lines {
      guard line.hasPrefix("$"), let fields = fields(line) else {
        builder.skip(line.hasPrefix("$") ? "wrong checksum" : "no sentence")
        continue
      }
      guard fields[0].count == 5, fields.count >= 10 else { continue }
      switch fields[0].suffix(3) {
      case "RMC":
        if let said = date(fields) { day = said }
        if let knots = Double(fields[7]), let time = ofDay(fields[1]) {
          speed = (time, knots * 1852 / 3600)
          lastOfDay = time
        }
        if !hasGGA { addMinimum(fields, day, builder: &builder) }
      case "GGA":
        guard let time = ofDay(fields[1]) else {
          builder.skip("no time")
          continue
        }
        guard fields[6] != "0", fields[6] != "" else {
          builder.skip("no fix")
          continue
        }
        // The date comes with the other sentence, past midnight after this one; or never.
        if time < lastOfDay - 43_200 { day = (day ?? 0) + 1 }
        lastOfDay = time
        // Heights are above the geoid; the next field but one is how far that is above the ellipsoid.
        let geoid = fields.count > 11 ? Double(fields[11]) : nil
        let height = Double(fields[9]).flatMap { height in geoid.map { height + $0 } }
        builder.add(
          seconds: Double(day ?? 0) * 86_400 + time, latitude: degrees(fields[2], fields[3]),
          longitude: degrees(fields[4], fields[5]),
          deviation: Double(fields[8]).map { max(0.5, min(10_000, $0 * builder.deviation)) },
          altitude: height,
          speed: speed.flatMap { abs($0.ofDay - time) < 2 ? $0.value : nil })
      default: continue
      }
    }
  }

  /// The position of an RMC sentence.
  private static func addMinimum(_ fields: [Substring], _ day: Int?, builder: inout TraceBuilder) {
    guard fields[2] == "A" else { return builder.skip("no fix") }
    builder.add(
      seconds: ofDay(fields[1]).map { Double(day ?? 0) * 86_400 + $0 },
      latitude: degrees(fields[3], fields[4]),
      longitude: degrees(fields[5], fields[6]), speed: Double(fields[7]).map { $0 * 1852 / 3600 })
  }

  /// The day that a sentence says, if it does.
  private static func date(_ fields: [Substring]) -> Int? {
    guard fields[0].hasSuffix("RMC"), fields.count >= 10, fields[9].count == 6, let date = Int(fields[9])
    else {
      return nil
    }
    return TraceTime.days(2000 + date % 100, date / 100 % 100, date / 10_000)
  }

  private static func fields(_ line: Substring) -> [Substring]? {
    let body = line.dropFirst()
    guard let star = body.lastIndex(of: "*") else { return nil }
    let sum = body[..<star].utf8.reduce(UInt8(0), ^)
    guard UInt8(body[body.index(after: star)...].prefix(2), radix: 16) == sum else { return nil }
    return body[..<star].split(separator: ",", omittingEmptySubsequences: false)
  }

  /// `hhmmss.ss`, as seconds of the day.
  private static func ofDay(_ text: Substring) -> Double? {
    guard let value = Double(text), value >= 0, value < 240_000 else { return nil }
    let whole = Int(value)
    guard whole / 100 % 100 < 60, whole % 100 <= 60 else { return nil }
    return Double(whole / 10_000 * 3600 + whole / 100 % 100 * 60) + value - Double(whole / 100 * 100)
  }

  /// `ddmm.mmmm` and a letter.
  private static func degrees(_ text: Substring, _ side: Substring) -> Double? {
    guard let value = Double(text), value >= 0, value < 20_000 else { return nil }
    let whole = (value / 100).rounded(.down)
    let degrees = whole + (value - whole * 100) / 60
    switch side {
    case "N", "E": return degrees
    case "S", "W": return -degrees
    default: return nil
    }
  }
}
