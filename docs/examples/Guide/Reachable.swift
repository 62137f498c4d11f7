import Opportune

/// Reads what has come on its socket when it is told of it, which has woken it.
final class Phone: AppDelegate, Sendable {
  let line = Published<(io: AppIO, socket: FileDescriptor)?>(nil)

  func didReceive(_ notice: AppNotice) async {
    guard case .data = notice, let (io, socket) = line.value else { return }
    do {
      let buffer = try IOBuffer(count: 64)
      let count = try await io.receive(socket, into: buffer)  // 0: the other side has closed
      print("phone: woken by", String(decoding: try buffer.bytes(in: 0..<count), as: UTF8.self))
    } catch { print("phone: \(error)") }
  }
}

func reachable() async throws {
  let scheduler = try Scheduler()
  var policy = AppsPolicy()
  policy.suspendsOnReturn = true
  policy.tasks.wallClock = .milliseconds(500)  // three minutes, unless it is set
  let host = try AppHost(scheduler: scheduler, policy: policy)
  let broker = try host.makeIOBroker()
  let exchange = try broker.makeIO(for: try scheduler.makeApp(named: "exchange"))
  let listener = try await exchange.listen(on: .ipv4("127.0.0.1", port: 0))

  let delegate = Phone()
  let manifest = Manifest(identifier: "phone", backgroundModes: [.voip])
  let phone = try await host.launch(manifest) { _ in delegate }
  let io = try broker.makeIO(for: phone)  // one for each life
  let socket = try await io.connect(to: try listener.address(), within: .seconds(5))
  let caller = try await listener.accept(within: .seconds(5))
  delegate.line.publish((io, socket))
  try phone.keepAlive([socket], of: io)

  let events = await host.observe()
  _ = try await phone.beginTask(.download) { task in
    print("phone: no more time for the download")
    try? await phone.endTask(task)
  }
  try await phone.withBackgroundTask(.upload) {
    try await host.leave(phone.id)  // the user goes elsewhere
    print("phone: uploads,", await phone.state())
  }
  for await event in events { if case .moved(_, .suspended, _) = event.action { break } }

  try await exchange.send(caller, "a call")
  for await event in events { if case .moved(_, .suspended, _) = event.action { break } }
  print("phone:", await phone.state())

  try await host.terminate(phone.id)
  await broker.shutdown()
  try await scheduler.shutdown()
}
