import Foundation
import Opportune
import OpportuneBase
import OpportuneHost

/// What `opportune serve` answers: a page that shows the apps of a host, and the numbers that it asks for
/// each second. Who has no token learns nothing.
struct AppsSite: Sendable {
  /// The host's socket, for people.
  let host: String
  let apps: @Sendable () -> Result<[AppEntry], PushError>
  private let site: LocalSite

  init(
    token: String = LocalSite.newToken(), host: String,
    apps: @escaping @Sendable () -> Result<[AppEntry], PushError>
  ) {
    (self.host, self.apps) = (host, apps)
    site = LocalSite(token: token, printer: "'opportune serve'", numbers: "/apps.json")
  }

  var token: String { site.token }

  func answer(to request: HTTPRequest) -> HTTPAnswer {
    if let refusal = site.refusal(of: request) { return refusal }
    var answer = request.path == "/" ? page : numbers
    answer.lacksBody = request.method == "HEAD"
    return answer
  }

  private struct Numbers: Encodable {
    let host: String
    let at: Double
    let apps: [AppEntry]
  }

  private var numbers: HTTPAnswer {
    switch apps() {
    case .success(let apps):
      return LocalSite.json(Numbers(host: host, at: Date().timeIntervalSince1970, apps: apps))
    case .failure(let error):
      return LocalSite.json(
        ["error": "no host answers: \(error.message)"], status: "503 Service Unavailable")
    }
  }

  private var page: HTTPAnswer {
    let columns = ["App", "State", "Processes", "CPU", "Memory", "Kept by", "Notes"]
    return LocalSite.page(
      title: "Apps of \(host)", heading: "Apps", style: Self.style, script: Self.script,
      [
        "<p id=told role=status>of the host at \(host.inHTML)</p>",
        HTMLPage.table(columns, [], isNumber: (2...4).contains),
      ])
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
