/// How many apps, never where: what it holds are fixes, fences and cells.
extension LocationSystem: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "a location system of \(apps.count) apps with \(requests.count) requests" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}
