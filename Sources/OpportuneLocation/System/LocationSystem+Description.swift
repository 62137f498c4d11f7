/// Counts only. The system holds the places of a person, which must not reach a log by accident.
extension LocationSystem: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "a location system of \(apps.count) apps with \(requests.count) requests" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}
