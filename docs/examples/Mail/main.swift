import Foundation
import Opportune

/// Prints what is pushed to it, in whatever state it is, until it is terminated. With the socket's path as
/// its argument:
///
///     opportune notify --socket PATH org.example.mail letter --payload from=ada
///     opportune switcher PATH list
///     opportune switcher PATH terminate org.example.mail
struct Mail: AppDelegate {
  func didReceive(_ notice: AppNotice) async {
    guard case .message(let message) = notice else { return }
    print(plain("\(message.kind) from \(message.payload["from"] ?? "nobody")"))
  }

  /// What others send is not to steer the terminal.
  private func plain(_ text: String) -> String {
    String(text.map { $0.unicodeScalars.contains { $0.properties.generalCategory == .control } ? "?" : $0 })
  }
}

do {
  let host = try AppHost()
  let events = await host.observe()
  let mail = try await host.launch(Manifest(identifier: "org.example.mail")) { _ in Mail() }
  // In place of the socket of a run that has ended; where that still runs, this fails and says so.
  let socket = try host.openPushSocket(at: CommandLine.arguments.dropFirst().first ?? "mail.sock")
  try await host.leave(mail.id)
  for await event in events { if case .moved(_, .notRunning, _) = event.action { break } }
  withExtendedLifetime(socket) {}
} catch {
  FileHandle.standardError.write(Data("Mail: \(error)\n".utf8))
  exit(1)
}
