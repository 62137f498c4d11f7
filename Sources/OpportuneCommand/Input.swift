import ArgumentParser
import Foundation
import OpportuneLocation

/// A whole file, or why there is none.
func readFile(_ path: String) throws -> Data {
  guard access(path, R_OK) == 0 else {
    throw Failure("'\(path)' cannot be read: \(String(cString: strerror(errno)))")
  }
  guard let data = FileManager.default.contents(atPath: path) else {
    throw Failure("'\(path)' is no file that can be read to its end")
  }
  guard !data.starts(with: [0x1f, 0x8b]) else { throw Failure("'\(path)' is compressed; unpack it first") }
  return data
}

/// A recorded track, or what is wrong with its file.
///
/// - Parameters:
///   - deviation: metres, for fixes of which the track says no accuracy.
///   - device: which of several devices, as `COLUMN=VALUE`; `COLUMN=*` for all rows, as one.
func readTrack(
  _ path: String, deviation: Double = 5, device: String? = nil, progress: ProgressLine
) throws -> LocationTrace {
  let chosen = try device.map(chosenDevice)
  return try progress.during("reading '\(path)'") { _ in
    let data = try readFile(path)
    do { return try LocationTrace.read(data, deviation: deviation, device: chosen) } catch {
      var advice = ""
      if case LocationTrace.Failure.severalDevices(let column, let values) = error, let first = values.first {
        advice =
          "; choose one, as with --device \(shellWord("\(column)=\(first)")), or take all for one with --device "
          + shellWord("\(column)=\(LocationTrace.Device.anyValue)")
      }
      throw Failure("'\(path)': \(error)\(advice)")
    }
  }
}

/// A device of several, as an option names it.
func chosenDevice(_ argument: String) throws -> LocationTrace.Device {
  guard let sign = argument.firstIndex(of: "="), sign > argument.startIndex else {
    throw ValidationError("--device is '\(argument)', expected a column and a value, as vehicle_id=4716")
  }
  return LocationTrace.Device(
    column: String(argument[..<sign]), value: String(argument[argument.index(after: sign)...]))
}

/// The fences of a GeoJSON file, or what is wrong with it.
func readFences(_ path: String, progress: ProgressLine) throws -> [NamedRegion] {
  try progress.during("reading '\(path)'") { count in
    let data = try readFile(path)
    do { return try GeoJSON.regions(data, progress: count) } catch { throw Failure("'\(path)': \(error)") }
  }
}

/// A number that an option was given, or what it may be.
@discardableResult
func checkRange(_ value: Double, _ name: String, _ range: ClosedRange<Double>) throws -> Double {
  guard range.contains(value) else {
    throw ValidationError("\(name) is \(value), expected \(range.lowerBound) to \(range.upperBound)")
  }
  return value
}
