import Opportune

/// Plays a hundred frames in background, is paused, and goes on.
struct Player: AppDelegate {}

var configuration = SchedulerConfiguration()
configuration.pools.insert(.realTime)
let host = try AppHost(scheduler: Scheduler(configuration: configuration))
let player = try await host.launch(Manifest(identifier: "player", backgroundModes: [.audio])) { _ in Player()
}
let (frames, played) = AsyncStream.makeStream(of: UInt64.self)
let stream = try await player.startAudio { played.yield($0.number) }
try await host.leave(player.id)

for await number in frames {
  if number == 49 {
    try await stream.pause()
    try await stream.resume()
  }
  if number >= 99 { break }
}
let statistics = stream.statistics
print(
  "\(statistics.frames) frames, \(statistics.underruns) underruns, every \(stream.period), "
    + "real-time class: \(stream.realTimeClass.rawValue)")
try await host.terminate(player.id)
