import Opportune
import OpportuneLocation
import TestSupport
import Testing

@Suite(.bounded) struct LocationExamples {
  @Test func fences() throws {
    // docs: fences
    let home = try Coordinate(latitude: 53.3498, longitude: -6.2603)
    var monitor = try RegionMonitor()
    _ = try monitor.add(Fence(Region.circle(home, radius: 100), reportsInitialState: true))
    var crossings: [Crossing] = []
    for second in 0..<30 {
      let fix = try Fix(home, accuracy: Accuracy(standardDeviation: 5), time: .seconds(Double(second)))
      crossings += monitor.update(fix)
    }
    for crossing in crossings { print(crossing.kind, crossing.confidence) }
    // end
    #expect(crossings.count == 1)
  }

  @Test func apps() async throws {
    let host = try AppHost()
    // docs: locations of apps
    let manifest = Manifest(
      identifier: "maps", usageDescriptions: ["NSLocationWhenInUseUsageDescription": "To show the way"])
    let maps = await host.register(manifest) { _ in Mail() }
    var locations = try LocationSystem()
    locations.register(maps, manifest)
    let request = LocationRequest.standard(accuracy: 100)
    let effects: [LocationEffect] = try locations.handle(LocationEvent.app(maps, .start(request)), at: .zero)
    for case .refused(_, let reason) in effects { print(reason) }
    // end
    #expect(!effects.isEmpty)
  }

  @Test func errors() throws {
    // docs: location errors
    do throws(LocationError) {
      _ = try Coordinate(latitude: 91, longitude: 0)
    } catch {
      print(error.message)  // says what is out of its range, and never where
    }
    // end
  }
}
