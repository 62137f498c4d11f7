import ArgumentParser
import Foundation
import OpportuneBase
import OpportuneHost
import ToolSupport

struct KeepCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "keep", abstract: "Exempts an app of the host from suspension.",
    discussion: """
      Until a time of the day, for a time, or until it is ended; it ends with the app and with the host as well. \
      opportune apps shows it.

      Example: opportune keep make --until 18:00 --reason "the release"
      """)
  @OptionGroup var change: AppChange
  @Option(help: "The local time of its end, HH:MM, within 24 hours.") var until: String?
  @Option(name: .customLong("for"), help: "How long, as 90s, 15m, 1.5h or 2d; at most 366d.")
  var duration: String?
  @Option(help: "Why, for people: up to 200 characters.") var reason: String?
  @Flag(help: "End it.") var end = false

  func validate() throws {
    guard [until != nil, duration != nil, end].count(where: { $0 }) <= 1 else {
      throw ValidationError("expected one of --until, --for and --end")
    }
    if end, reason != nil { throw ValidationError("--end needs no --reason") }
    if let reason, reason.count > Exemption.longestReason {
      throw ValidationError(
        "--reason has \(reason.count) characters: expected up to \(Exemption.longestReason)")
    }
    _ = try seconds()
  }

  private func seconds() throws -> Double? {
    if let until {
      guard let seconds = Exemption.seconds(until: until, now: Int64(time(nil))) else {
        throw ValidationError("--until is '\(until)': expected HH:MM")
      }
      return seconds
    }
    return try duration.map { try parseSeconds($0, "--for") }
  }

  func run() throws {
    var request = HostRequest(.keep, name: change.name)
    request.end = end
    (request.seconds, request.reason) = (try seconds(), reason)
    try change.socket.change(request, change.patience)
  }
}
