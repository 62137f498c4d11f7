import OpportuneApps
import OpportuneLocation

extension LocationTrace {
  /// A fix each second, for recordings that repeat a position until the next one comes, as phones' logs do.
  ///
  /// Only where the position changed is it taken for measured. Between two such places the device is taken to
  /// have gone straight and evenly; where that took longer than `stop`, to have stopped first and gone at
  /// 15 m/s then. Cells stay as they are. What comes out has no errors of its own: it serves to compare ways
  /// of sampling, not of deciding.
  ///
  /// - Parameter stop: seconds, from 1 on.
  /// - Throws: ``LocationError``: `outOfRange`.
  package func everySecond(stop: Double = 60) throws(LocationError) -> LocationTrace {
    guard (1...86_400).contains(stop) else {
      throw LocationError(.outOfRange("stopping time in seconds", 1...86_400))
    }
    var measured: [Fix] = []
    for fix in fixes where fix.position != measured.last?.position { measured.append(fix) }
    guard let first = measured.first, let end = fixes.last else { return self }
    var result: [Fix] = []
    func add(_ place: Coordinate, _ like: Fix, _ second: Double, _ speed: Double) throws(LocationError) {
      result.append(
        try Fix(
          place, accuracy: like.accuracy, altitude: like.altitude, speed: speed, source: like.source,
          time: .seconds(second)))
    }
    var second = first.time.seconds.rounded(.up)
    for (from, to) in zip(measured, measured.dropFirst()) {
      let way = Ellipsoid.way(from.position, to.position)
      let (begin, arrival) = (from.time.seconds, to.time.seconds)
      let start = arrival - begin > stop ? max(begin, arrival - max(1, way.metres / 15)) : begin
      while second < arrival {
        let share = max(0, (second - start) / (arrival - start))
        let place = Ellipsoid.place(from: from.position, azimuth: way.azimuth, metres: way.metres * share)
        try add(
          place, from, second, share > 0 || start == begin ? min(1e5, way.metres / (arrival - start)) : 0)
        second += 1
      }
    }
    if let last = measured.last {
      while second <= end.time.seconds {
        try add(last.position, last, second, 0)
        second += 1
      }
    }
    return LocationTrace(fixes: result.isEmpty ? fixes : result, cells: cells, start: start, skipped: skipped)
  }
}
