import Foundation

/// The kernel's power supplies, from a folder such as `/sys/class/power_supply`.
package struct SystemPower: Sendable, Hashable {
  package let path: String

  package init(path: String = "/sys/class/power_supply") { self.path = path }

  /// The machine's power supply. A machine without any known supply is on mains. One with a battery is on
  /// battery unless another supply is online, or the battery is charging or full. (R-PWR-01)
  package func read() -> PowerSupply {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
    var hasBattery = false
    var isFed = false
    for name in names.sorted() {
      // A mouse's battery says nothing about the machine.
      if value("scope", of: name) == "Device" { continue }
      switch value("type", of: name) {
      case "Battery", "UPS":
        hasBattery = true
        if let status = value("status", of: name), status == "Charging" || status == "Full" { isFed = true }
      case .some: if let online = value("online", of: name), online != "0" { isFed = true }
      case nil: break
      }
    }
    return isFed || !hasBattery ? .mains : .battery
  }

  private func value(_ file: String, of supply: String) -> String? {
    guard let text = try? String(contentsOfFile: "\(path)/\(supply)/\(file)", encoding: .utf8) else {
      return nil
    }
    return text.trimmingCharacters(in: .whitespacesAndNewlines)
  }
}
