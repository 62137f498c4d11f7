import Hummingbird
import Opportune
import ServiceLifecycle

/// Middleware that runs what follows it, the handler included, on an app, chosen by route.
///
/// ```swift
/// router.add(middleware: RunOnApps(ui, routes: [AppRoute("/reports", on: reports)]))
/// ```
///
/// Each request is a task of its own on its app, so that one that takes long is demoted by itself, and the
/// next one on its connection begins afresh. Task-local values, and so the logger and the trace, go along. A
/// cancelled request cancels the task. What the handler throws is thrown here.
///
/// Add it before the routes: Hummingbird applies middleware to the routes that are added after it. Middleware
/// added after it runs on the app, too. A body that is streamed is written after the handler has returned,
/// and outside of the app: read files by ``AppFiles``, or make the body by
/// `ResponseBody(on:contentLength:_:)`.
///
/// A request for a suspended app waits until that is resumed, also when the request is cancelled meanwhile.
/// Under ServiceLifecycle a graceful shutdown resumes the app, since the server waits for such requests.
///
/// What a request takes, from here to the handler's end, its waiting for a worker included, counts for the
/// target of its app (`App.target(_:)`), unless its route says otherwise. Do not nest two of this type: the
/// time of the inner app's request would count for the outer app, too. Safe from any thread.
public struct RunOnApps<Context: RequestContext>: RouterMiddleware {
  private let rest: AppRoute
  /// The longest paths first.
  private let routes: [AppRoute]

  /// Makes the middleware.
  ///
  /// - Parameters:
  ///   - app: where the handlers of all other routes run.
  ///   - routes: those that run elsewhere, or are not marked. Where several fit, the longest path counts.
  public init(_ app: App, routes: [AppRoute] = []) {
    rest = AppRoute("/", on: app)
    self.routes = routes.sorted { $0.parts.count > $1.parts.count }
  }

  public func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    let parts = AppRoute.parts(of: context.endpointPath ?? request.uri.path)
    let route = routes.first { $0.holds(parts) } ?? rest
    // Counted by hand: `next` must not be sent from a body that runs where its caller does.
    let (clock, begun) = (route.app.clock, route.app.clock.now)
    defer { if route.isMarked { route.app.countRequest(lasting: begun.duration(to: clock.now)) } }
    return try await run(next, request, context, on: route.app)
  }

  private func run(
    _ next: (Request, Context) async throws -> Response, _ request: Request, _ context: Context, on app: App
  ) async throws -> Response {
    try await withoutActuallyEscaping(next) { next in
      let call = HandedOver { try await next(request, context) }
      let task = app.task { try await call.take()() }
      return try await withTaskCancellationHandler {
        try await withGracefulShutdownHandler {
          try await task.value
        } onGracefulShutdown: {
          app.resume()
        }
      } onCancel: {
        task.cancel()
      }
    }
  }
}

/// Where the requests of a path run; see ``RunOnApps``.
public struct AppRoute: Sendable {
  let parts: [Substring]
  let app: App
  let isMarked: Bool

  /// Makes a rule.
  ///
  /// - Parameters:
  ///   - path: as it was given to the router, `"/users/{id}"`; it holds for all below as well, by whole
  ///     parts: `"/users"` for `"/users/{id}"`, and not for `"/usersettings"`.
  ///   - app: where its handlers run.
  ///   - isMarked: whether its requests count for the app's target. Those that take long by themselves should
  ///     not: they would be late whatever background does.
  public init(_ path: String, on app: App, isMarked: Bool = true) {
    parts = Self.parts(of: path)
    self.app = app
    self.isMarked = isMarked
  }

  static func parts(of path: String) -> [Substring] { path.split(separator: "/") }

  func holds(_ path: [Substring]) -> Bool { path.starts(with: parts) }
}

/// A closure that one task hands to another and waits for.
///
/// Sendable: the first task makes it and then only waits until the second has ended, which is the only one to
/// take it. Starting and awaiting a task order the two. The closure must have no reference left when the
/// second task's end is seen, since it may not escape: so the task's own closure, which is released a moment
/// after that, holds this box, and the box no longer holds it.
private final class HandedOver: @unchecked Sendable {
  private var body: (() async throws -> Response)?

  init(_ body: @escaping () async throws -> Response) { self.body = body }

  func take() throws -> () async throws -> Response {
    guard let taken = body.take() else { throw CancellationError() }
    return taken
  }
}
