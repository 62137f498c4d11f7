/// The requests of all apps by descriptor, in flight or queued, so that a close need not search all requests.
///
/// Intrusive lists in a hash table by the lowest bits of the descriptor. Adding a request allocates nothing,
/// and a number that is not a descriptor takes no extra room. Reactor's thread only.
struct RequestsByDescriptor {
  /// A request's neighbours in its list.
  struct Links {
    // Unretained: the kernel's tag or the scheduler retains each listed request.
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

  /// Removes a request that was added.
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

  /// All requests on a descriptor, the latest first.
  func requests(on descriptor: Int32) -> [Request] {
    var found: [Request] = []
    var next = lists[index(descriptor)].first
    while let request = next {
      if request.call.op.fd == descriptor { found.append(request) }
      next = request.links.next
    }
    return found
  }

  /// Whether a request is in flight on a descriptor. An accepted zero-copy send does not count: it uses its
  /// buffer, but not the descriptor.
  func isBusy(_ descriptor: Int32) -> Bool {
    var next = lists[index(descriptor)].first
    while let request = next {
      if request.call.op.fd == descriptor, !request.isAccepted { return true }
      next = request.links.next
    }
    return false
  }
}
