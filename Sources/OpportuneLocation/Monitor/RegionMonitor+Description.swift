/// Shows how many fences there are, but not where: positions are private.
extension RegionMonitor: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "a monitor of \(count) fences" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}
