import Foundation
import Opportune
import OpportuneLocation

/// What a phone logged: the fixes that it was given, and when its system told of leaving a fence.
///
/// Its form is that of e-mission's entries, `[{"metadata": {"key": …, "write_ts": …}, "data": {…}}]`: fixes
/// are `background/location`, exits the transition 1 of `statemachine/transition`. Other entries are left
/// out.
package struct PhoneLog: Sendable {
  package let name: String
  let platform: String
  /// In the order of their times, from moment zero on, each of its own time.
  let fixes: [Fix]
  /// Those told again within a minute are one.
  let exits: [Moment]
  /// With those told again.
  let recorded: Int

  /// Seconds within which an exit is the one before, told again.
  static let again = 60.0

  /// - Throws: ``BenchError`` for what is no such log.
  package init(name: String, reading data: Data) throws(BenchError) {
    let entries: [Entry]
    do { entries = try JSONDecoder().decode([Entry].self, from: data) } catch {
      throw .invalid("--log", name, expected: "a JSON array of entries with metadata.key and data")
    }
    self.name = name
    // Those that say nothing of the phone may be a server's.
    platform = entries.lazy.filter { $0.seconds != nil }.compactMap(\.platform).first ?? "unknown"
    let start = entries.compactMap(\.seconds).min() ?? 0
    var fixes: [Fix] = []
    for entry in entries.filter({ $0.key == Entry.fix }).sorted(by: { ($0.seconds ?? 0) < ($1.seconds ?? 0) })
    {
      guard let fix = entry.fix(since: start), fixes.last.map({ fix.time > $0.time }) ?? true else {
        continue
      }
      fixes.append(fix)
    }
    self.fixes = fixes
    let told = entries.filter { $0.transition == 1 }.compactMap(\.seconds).sorted()
    recorded = told.count
    var exits: [Double] = []
    for seconds in told where seconds - (exits.last ?? -.infinity) > Self.again { exits.append(seconds) }
    self.exits = exits.map { .seconds($0 - start) }
  }

  private struct Entry: Decodable {
    static let fix = "background/location"
    let key: String
    let platform: String?
    var seconds: Double?
    var transition: Int?
    var place: (latitude: Double, longitude: Double, accuracy: Double)?
    var speed: Double?

    private enum Part: CodingKey { case metadata, data }
    private enum Field: String, CodingKey {
      case key, platform
      case written = "write_ts"
      case ts, transition, latitude, longitude, accuracy
      case speed = "sensed_speed"
    }

    init(from decoder: any Decoder) throws {
      let parts = try decoder.container(keyedBy: Part.self)
      let metadata = try parts.nestedContainer(keyedBy: Field.self, forKey: .metadata)
      key = try metadata.decode(String.self, forKey: .key)
      platform = try metadata.decodeIfPresent(String.self, forKey: .platform)
      guard key == Self.fix || key == "statemachine/transition" else { return }
      let data = try parts.nestedContainer(keyedBy: Field.self, forKey: .data)
      // Some early files have the time of a transition only here.
      seconds =
        try data.decodeIfPresent(Double.self, forKey: .ts)
        ?? metadata.decodeIfPresent(Double.self, forKey: .written)
      guard key == Self.fix else {
        transition = try data.decodeIfPresent(Int.self, forKey: .transition)
        return
      }
      place = try (
        data.decode(Double.self, forKey: .latitude), data.decode(Double.self, forKey: .longitude),
        data.decode(Double.self, forKey: .accuracy)
      )
      speed = try data.decodeIfPresent(Double.self, forKey: .speed)
    }

    /// `nil` for what no receiver can mean.
    func fix(since start: Double) -> Fix? {
      guard let place, let seconds else { return nil }
      return try? Fix(
        Coordinate(latitude: place.latitude, longitude: place.longitude),
        accuracy: .radius(max(1, place.accuracy)),
        speed: speed.flatMap { $0 >= 0 ? $0 : nil }, time: .seconds(seconds - start))
    }
  }
}
