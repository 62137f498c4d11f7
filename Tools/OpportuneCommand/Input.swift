import ArgumentParser
import Foundation
import OpportuneBase
import OpportuneHost
import OpportuneLocation
import OpportuneTraces

/// The kind of a file that is not a regular file.
enum FileKind: String {
  case folder = "a folder"
  case pipe = "a pipe"
  case socket = "a socket"
  case device = "a device"

  /// `nil` of an ordinary file.
  init?(_ mode: mode_t) {
    switch mode & S_IFMT {
    case S_IFREG: return nil
    case S_IFDIR: self = .folder
    case S_IFIFO: self = .pipe
    case S_IFSOCK: self = .socket
    default: self = .device
    }
  }

  /// `nil` where there is nothing as well.
  init?(_ path: String) {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    self.init(status.st_mode)
  }
}

/// A whole file, or why there is none. Of a pipe that somebody writes to, and of a terminal, what comes until
/// its end.
///
/// - Parameter longest: the bytes after which no more is read.
func readFile(_ path: String, longest: Int = .max) throws -> Data {
  // Not to wait for a pipe's writer, who may never come.
  let file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
  guard file >= 0 else {
    let reason = errorText(errno)
    throw Failure(
      "'\(path)' cannot be read: \(FileKind(path) == .socket ? "it is a socket, expected a file" : reason)")
  }
  defer { close(file) }
  var status = stat()
  let kind = fstat(file, &status) == 0 ? FileKind(status.st_mode) : nil
  // Some devices have no end.
  if let kind, kind != .pipe, isatty(file) != 1 {
    throw Failure("'\(path)' is \(kind.rawValue), expected a file")
  }
  var data = Data(capacity: kind == nil ? min(Int(status.st_size), longest) : 0)
  var bytes = [UInt8](repeating: 0, count: 1 << 16)
  while data.count < longest {
    let count = read(file, &bytes, bytes.count)
    if count == 0 { break }
    if count > 0 {
      data += bytes[..<count]
    } else if errno == EAGAIN {
      var polled = pollfd(fd: file, events: Int16(POLLIN), revents: 0)
      poll(&polled, 1, -1)
    } else if errno != EINTR {
      throw Failure("'\(path)' cannot be read to its end: \(errorText(errno))")
    }
  }
  if kind == .pipe, data.isEmpty {
    throw Failure("'\(path)' is a pipe that nobody writes to, expected a file")
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
      if case .severalDevices(let column, let values)? = (error as? LocationTrace.Failure)?.code,
        let first = values.first
      {
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

/// - Parameter text: a time as 90s, 15m, 1.5h or 2d.
func parseSeconds(_ text: String, _ option: String) throws -> Double {
  guard let seconds = Exemption.seconds(of: text) else {
    throw ValidationError("\(option) is '\(text)': expected a number and s, m, h or d, up to 366d")
  }
  return seconds
}
