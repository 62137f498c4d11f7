import Opportune

struct Notes: AppDelegate {
  func didEnterBackground() async { print("saved") }
}

let host = try AppHost()
let notes = try await host.launch(Manifest(identifier: "notes")) { _ in Notes() }
try await notes.task { print("typing") }.value
try await host.leave(notes.id)
for await event in await host.observe() { if case .moved(_, .suspended, _) = event.action { break } }
print(await notes.state())
