import Foundation
internal import Glibc
internal import OpportuneBase

/// Processes on which a user's session hangs: display servers, the bus, sound, what starts sessions. Whoever
/// is suspended there takes all others along, so the host leaves them alone.
package struct SessionProcesses {
  /// Those of this user from which this process descends, and with which it would be stopped.
  package static func above() -> [Int32] {
    ProcessTable.ancestors(of: getpid()).filter { ProcessTable.user(of: $0) == geteuid() }
  }

  /// What is said of who serves there.
  private let servers: [pid_t: String]

  /// Where a manager of services listens for others, as systemd does, the socket tells of that one alone.
  private static let programs: Set<String> = [
    // Display servers, and compositors of Wayland.
    "Hyprland", "Xorg", "Xvfb", "Xwayland", "cage", "cosmic-comp", "gnome-shell", "kwin_wayland", "labwc",
    "mutter", "niri", "river", "sway", "wayfire", "weston",
    // Who manages an X display's windows, without which no other gets the focus.
    "awesome", "bspwm", "cinnamon", "dwm", "fluxbox", "herbstluftwm", "i3", "icewm", "kwin_x11", "marco",
    "metacity", "muffin", "openbox", "qtile", "xfwm4", "xmonad",
    // Who starts sessions, and holds their terminals.
    "agetty", "gdm-session-wor", "gdm3", "greetd", "lightdm", "login", "lxdm", "screen", "sddm",
    "sddm-helper",
    "sshd", "sshd-session", "tmux: server",
    "dbus-broker", "dbus-broker-lau", "dbus-daemon", "elogind-daemon", "pipewire", "pipewire-pulse",
    "pulseaudio", "seatd", "systemd", "systemd-journal", "systemd-logind", "systemd-udevd", "wireplumber",
  ]

  /// - Parameter display: that is followed; `nil`: none.
  init(
    display: X11Display?, environment: [String: String] = ProcessInfo.processInfo.environment
  ) {
    let folder = environment["XDG_RUNTIME_DIR"].map { $0 + "/" } ?? ""
    let wayland = environment["WAYLAND_DISPLAY"] ?? "wayland-0"
    var sockets = [("the system's bus", "/run/dbus/system_bus_socket")]
    if let display = display ?? environment["DISPLAY"].flatMap(X11Display.init) {
      sockets.append((display.name, display.path))
    }
    if wayland.hasPrefix("/") { sockets.append(("the Wayland display", wayland)) }
    if !folder.isEmpty {
      sockets += [
        ("the session's bus", folder + "bus"), ("the Wayland display", folder + wayland),
        ("sound", folder + "pipewire-0"), ("sound", folder + "pulse/native"),
      ]
    }
    if let path = environment["SWAYSOCK"] { sockets.append(("sway", path)) }
    servers = Dictionary(
      sockets.compactMap { what, path in Self.server(at: path).map { ($0, "it serves \(what)") } },
      uniquingKeysWith: { first, _ in first })
  }

  /// Why a process is to be left alone, for people; `nil`: it may be an app.
  func why(_ pid: pid_t) -> String? {
    if let why = servers[pid] { return "\(why), on which other programs hang" }
    guard let name = ProcessTable.command(of: pid), Self.programs.contains(name) else { return nil }
    return "it is '\(name)', on which other programs hang"
  }

  /// Who listens at a socket; `nil` where nobody does.
  private static func server(at path: String) -> pid_t? {
    guard let address = UnixSocketAddress(path) else { return nil }
    // Must not block where the queue is full.
    let flags = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
    let probe = socket(AF_UNIX, flags, 0)
    guard probe >= 0 else { return nil }
    defer { close(probe) }
    guard address.withPointer({ connect(probe, $0, $1) }) == 0 else { return nil }
    let server = HostSocket.process(of: probe)
    return server > 0 ? server : nil
  }
}
