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
/// - Parameter deviation: metres, for fixes of which the track says no accuracy.
func readTrack(_ path: String, deviation: Double) throws -> LocationTrace {
  let data = try readFile(path)
  do { return try LocationTrace.read(data, deviation: deviation) } catch {
    throw Failure("'\(path)': \(error)")
  }
}

/// The fences of a GeoJSON file, or what is wrong with it.
func readFences(_ path: String) throws -> [NamedRegion] {
  let data = try readFile(path)
  do { return try GeoJSON.regions(data) } catch {
    throw Failure("'\(path)': \(error)")
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
