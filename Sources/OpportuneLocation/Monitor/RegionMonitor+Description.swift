/// How many fences, never where: what it holds are places in metres from the middle of the Earth.
extension RegionMonitor: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "a monitor of \(count) fences" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}
