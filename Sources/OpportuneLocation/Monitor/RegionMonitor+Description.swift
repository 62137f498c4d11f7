/// How many fences, never where: what it holds are places in metres from the middle of the Earth.
extension RegionMonitor: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "a monitor of \(count) fences" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}

extension RegionMonitor {
  /// Forgets where the device is, as long as nobody asks: the next fix is like a first one, but the sides
  /// that fences were found on are known.
  mutating func forgetPlace() {
    guard lastFix != nil else { return }
    (lastFix, lastPoint, velocity, lastElapsed, highestSpeed, suspect) = (nil, .zero, nil, nil, 0, nil)
    (safeRadius, neighbourhood) = ((.zero, -1), (.zero, -1))
  }
}
