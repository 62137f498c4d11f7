import Opportune
import OpportuneLocation

/// A walk of ten minutes past a shop, a fix each ten seconds, as a recording has it.
let walk = stride(from: 0.0, through: 600, by: 10).map { (seconds: $0, latitude: 53.3462 + 0.0000125 * $0) }

struct Maps: AppDelegate {}

func locations() async throws {
  let fixes = try walk.map {
    try Fix(
      Coordinate(latitude: $0.latitude, longitude: -6.2603), accuracy: Accuracy(standardDeviation: 5),
      time: .seconds($0.seconds))
  }

  let shop = try Coordinate(latitude: 53.3498, longitude: -6.2603)
  var monitor = try RegionMonitor()
  _ = try monitor.add(Fence(.circle(shop, radius: 100), dwell: .seconds(60)))
  for fix in fixes {
    for crossing in monitor.update(fix) { print("\(crossing.kind), sure: \(crossing.confidence >= 0.99)") }
  }

  let host = try AppHost()
  let manifest = Manifest(
    identifier: "maps", usageDescriptions: ["NSLocationWhenInUseUsageDescription": "To show the way"])
  let maps = await host.register(manifest) { _ in Maps() }
  var system = try LocationSystem()
  system.register(maps, manifest)
  _ = try system.handle(.available(.satellite, true), at: .zero)  // what runs the receiver says so
  _ = try system.handle(.app(maps, .moved(.active)), at: .zero)  // and a host each move of the app
  for case .ask(let prompt, _, _) in try system.handle(.app(maps, .requestAuthorization(nil)), at: .zero) {
    print("the user is asked, and allows it")
    _ = try system.handle(.answer(prompt, .allow), at: .zero)
  }
  for effect in try system.handle(.app(maps, .start(.standard(accuracy: 100))), at: .zero) {
    if case .refused(_, let reason) = effect { print("refused: \(reason)") }
    if case .source(let source?) = effect { print("runs: \(source)") }
  }
  var delivered = 0
  for fix in fixes {
    for case .deliver(maps, _) in try system.handle(.fix(fix), at: fix.time) { delivered += 1 }
  }
  print("maps was told: \(delivered > 0)")
}
