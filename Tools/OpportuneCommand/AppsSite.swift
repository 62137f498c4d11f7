import Foundation
import OpportuneApps
import OpportuneBase
import OpportuneHost
import ToolSupport

/// What `opportune serve` answers: a page that shows the apps of a host, and the numbers that it asks for
/// each second. Who has no token learns nothing.
struct AppsSite: Sendable {
  let token: String
  /// The host's socket, for people.
  let host: String
  let apps: @Sendable () -> Result<[AppEntry], PushError>

  /// 128 bits that nobody can guess.
  static func newToken() -> String {
    var random = SystemRandomNumberGenerator()
    return (0..<2).map { _ in
      let half = String(random.next(), radix: 16)
      return String(repeating: "0", count: 16 - half.count) + half
    }.joined()
  }

  func answer(to request: HTTPRequest) -> HTTPAnswer {
    guard request != .malformed else {
      return HTTPAnswer(status: "400 Bad Request", body: "This is no request of HTTP/1.1.\n")
    }
    guard let given = request.token, isToken(given) else {
      return HTTPAnswer(
        status: "401 Unauthorized", fields: ["WWW-Authenticate: Bearer"],
        body: "The address lacks its token: use the one that 'opportune serve' has printed.\n")
    }
    guard ["GET", "HEAD"].contains(request.method) else {
      return HTTPAnswer(
        status: "405 Method Not Allowed", fields: ["Allow: GET, HEAD"], body: "Nothing can be changed here.\n"
      )
    }
    var answer: HTTPAnswer
    switch request.path {
    case "/": answer = page
    case "/apps.json": answer = numbers
    default: answer = HTTPAnswer(status: "404 Not Found", body: "There are / and /apps.json here.\n")
    }
    answer.lacksBody = request.method == "HEAD"
    return answer
  }

  /// Takes as long for each that is of its length.
  private func isToken(_ given: String) -> Bool {
    let (given, token) = (Array(given.utf8), Array(token.utf8))
    return given.count == token.count && zip(given, token).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
  }

  private struct Numbers: Encodable {
    let host: String
    let at: Double
    let apps: [AppEntry]
  }

  private var numbers: HTTPAnswer {
    func json(_ status: String, _ value: some Encodable) -> HTTPAnswer {
      guard let body = try? jsonText(of: value, indented: false) else {
        return HTTPAnswer(status: "500 Internal Server Error", body: "The answer cannot be encoded.\n")
      }
      return HTTPAnswer(status: status, type: "application/json", body: body)
    }
    switch apps() {
    case .success(let apps):
      return json("200 OK", Numbers(host: host, at: Date().timeIntervalSince1970, apps: apps))
    case .failure(let error):
      return json("503 Service Unavailable", ["error": "no host answers: \(error.message)"])
    }
  }

  private var page: HTTPAnswer {
    let nonce = Self.newToken()
    let columns = ["App", "State", "Processes", "CPU", "Memory", "Kept by", "Notes"]
    let text = HTMLPage.text(
      title: "Apps of \(host)", heading: "Apps", style: Self.style,
      [
        "<p id=told role=status>of the host at \(host.inHTML)</p>",
        HTMLPage.table(columns, [], isNumber: (2...4).contains),
        "<script nonce=\(nonce)>\(Self.script)</script>",
      ])
    let policy =
      "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-\(nonce)'; connect-src 'self'; "
      + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return HTTPAnswer(
      status: "200 OK", type: "text/html; charset=utf-8", fields: ["Content-Security-Policy: \(policy)"],
      body: text)
  }

  private static let style = """
    #told { color: var(--soft); } #told.late { color: #c5221f; }
    .foreground { font-weight: 600; } .suspended, .hibernated, .terminated { color: var(--soft); }
    """

  /// What it shows of others is text, never markup.
  private static let script = """
    const rows = document.querySelector("tbody"), told = document.getElementById("told");
    let before = new Map(), beganAt = 0;
    function show(answer) {
      const seconds = answer.at - beganAt, now = new Map();
      rows.replaceChildren(...answer.apps.map(app => {
        now.set(app.id, app.cpu_s);
        const used = before.has(app.id) && seconds > 0 ? (app.cpu_s - before.get(app.id)) / seconds * 100 : null;
        const row = document.createElement("tr");
        row.className = app.state;
        [app.id, app.state, app.pids.length, used === null ? "–" : Math.max(0, used).toFixed(0) + " %",
         (app.memory_bytes / 1e6).toFixed(1) + " MB", app.kept_by.join(", "), app.notes.join("; ")]
          .forEach((text, column) => {
            const cell = document.createElement(column ? "td" : "th");
            if (column > 1 && column < 5) cell.className = "n";
            cell.textContent = text;
            row.append(cell);
          });
        return row;
      }));
      [before, beganAt] = [now, answer.at];
      told.className = "";
      told.textContent = (answer.apps.length ? "" : "no app runs, ") + "of the host at " + answer.host + ", "
        + new Date(answer.at * 1000).toLocaleTimeString();
    }
    async function look() {
      try {
        const answer = await fetch("/apps.json" + location.search);
        const value = await answer.json();
        if (!answer.ok) throw new Error(value.error);
        show(value);
      } catch (error) {
        told.className = "late";
        told.textContent = error instanceof TypeError ? "opportune serve does not answer" : error.message;
      }
      setTimeout(look, 1000);
    }
    look();
    """
}
