/// What is in flight on a descriptor, or queued, whatever app's it is, so that a close looks at its own and
/// not at all there is.
///
/// Lists through the requests themselves, by the lowest bits of their descriptors: nothing is allocated for a
/// request, and a number that is no descriptor takes no more room than others. The reactor's alone.
struct RequestsByDescriptor {
  /// A request's neighbours in its list.
  struct Links {
    // Whoever is in a list is held by its tag, which the kernel has, or by the scheduler.
    fileprivate unowned(unsafe) var previous: Request?
    fileprivate unowned(unsafe) var next: Request?
    fileprivate(set) var isListed = false
  }

  private struct List {
    unowned(unsafe) var first: Request?
  }

  private static let count = 4096

  private var lists = [List](repeating: List(), count: count)

  private func index(_ descriptor: Int32) -> Int { Int(truncatingIfNeeded: descriptor) & (Self.count - 1) }

  mutating func add(_ request: Request) {
    assert(!request.links.isListed)
    let index = index(request.call.op.fd)
    let next = lists[index].first
    request.links = Links(previous: nil, next: next, isListed: true)
    next?.links.previous = request
    lists[index].first = request
  }

  /// Of one that was added.
  mutating func remove(_ request: Request) {
    let links = request.links
    assert(links.isListed)
    links.next?.links.previous = links.previous
    if let previous = links.previous {
      previous.links.next = links.next
    } else {
      lists[index(request.call.op.fd)].first = links.next
    }
    request.links = Links()
  }

  /// All on a descriptor, the latest first.
  func requests(on descriptor: Int32) -> [Request] {
    var found: [Request] = []
    var next = lists[index(descriptor)].first
    while let request = next {
      if request.call.op.fd == descriptor { found.append(request) }
      next = request.links.next
    }
    return found
  }

  /// Whether something is in flight on a descriptor. A zero-copy send that was answered holds its buffer, not
  /// the number.
  func isBusy(_ descriptor: Int32) -> Bool {
    var next = lists[index(descriptor)].first
    while let request = next {
      if request.call.op.fd == descriptor, !request.isAccepted { return true }
      next = request.links.next
    }
    return false
  }
}
