import ArgumentParser
import Foundation
import Opportune
import OpportuneBase
import OpportuneHost

struct ServeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "serve", abstract: "Shows the apps of the host in a browser, live.",
    discussion: """
      Prints an address. Its page is served to this machine alone (127.0.0.1), to who has the token that the address \
      ends in, and changes nothing. The numbers behind it are at /apps.json, with the token as well, in the address or \
      as 'Authorization: Bearer TOKEN'. Runs until it is ended; a host that goes, or is not there yet, is waited for.

      Example: opportune serve --port 8080
      """)

  @OptionGroup var socket: HostSocketOption
  @Option(help: "The port; 0: one that is free.") var port: UInt16 = 0

  func run() async throws {
    let path = try socket.path()
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "pages")
    let io = try IOBroker().makeIO(for: app)
    let listener: Listener
    do { listener = try await io.listen(on: .ipv4("127.0.0.1", port: port)) } catch {
      throw Failure("--port \(port): \(error.message)")
    }
    guard case .ipv4(_, let port) = try listener.address() else { throw Failure("the port is not known") }
    let site = AppsSite(host: path) {
      do throws(PushError) {
        return .success(try HostRequest(.apps).send(to: path, within: .seconds(5)).apps ?? [])
      } catch {
        return .failure(error)
      }
    }
    try StandardOutput.write("http://127.0.0.1:\(port)/?token=\(site.token)\n")
    try await LocalSite.serve(listener, on: app, through: io) { site.answer(to: $0) }
  }
}
