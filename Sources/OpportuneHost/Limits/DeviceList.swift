package import OpportuneApps

/// Devices that are taken from background, by the hardware that they are to the policy. (R-HW-02)
package struct DeviceList: Sendable, Hashable {
  /// One device, or all of a major number.
  package struct Device: Sendable, Hashable {
    package var isBlock = false
    package var major: Int32
    /// `nil`: each.
    package var minor: Int32?

    package func covers(_ other: Device) -> Bool {
      isBlock == other.isBlock && major == other.major && (minor == nil || minor == other.minor)
    }
  }

  package private(set) var devices: [Hardware: [Device]]

  /// The most devices there may be.
  package static let most = 64

  /// What is taken unless a user chooses. Not graphics and sound: who transcodes or plays music behind, by a
  /// program that knows nothing of this, would fail for the want of them.
  package static let ordinary = standard.limited(to: [.camera, .input])

  /// What has a name: graphics (DRM, and NVIDIA's own), cameras (V4L), sound (ALSA, and OSS; by its number
  /// capture is not told from playing), and what the user moves. Sensors of the kernel's industrial I/O have
  /// no fixed number.
  package static let standard = DeviceList(devices: [
    .gpu: [Device(major: 226), Device(major: 195)],
    .camera: [Device(major: 81)],
    .microphone: [Device(major: 116), Device(major: 14)],
    .input: [Device(major: 13)],
  ])

  private init(devices: [Hardware: [Device]]) { self.devices = devices }

  /// Reads what a user chooses: names of the standard, and further hardware as `NAME=c:MAJOR`,
  /// `NAME=c:MAJOR:MINOR`, with `b` for block devices, with commas between; `none`.
  ///
  /// - Throws: ``ProcessHostError``: `value`.
  package init(_ text: String) throws(ProcessHostError) {
    devices = [:]
    if text == "none" { return }
    func wrong(_ word: Substring, _ expected: String) -> ProcessHostError {
      ProcessHostError(.value("a device that background may not open", "'\(word)'", expected))
    }
    for word in text.split(separator: ",", omittingEmptySubsequences: false) {
      let sides = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      let name = sides[0]
      guard (1...32).contains(name.utf8.count), name.allSatisfy({ $0.isASCII && ($0.isLetter || $0 == "-") })
      else { throw wrong(word, "expected a name of letters, as in gpu,camera or dvb=c:212, or none alone") }
      let hardware = Hardware(String(name))
      if sides.count == 2 {
        guard let device = Device(sides[1]) else {
          throw wrong(word, "expected \(name)=c:MAJOR or \(name)=c:MAJOR:MINOR, b for block devices")
        }
        devices[hardware, default: []].append(device)
      } else {
        guard let known = Self.standard.devices[hardware] else {
          let names = Self.standard.names.joined(separator: ", ")
          throw wrong(word, "expected one of \(names), or \(name)=c:MAJOR")
        }
        devices[hardware, default: []] += known
      }
    }
    let count = devices.values.map(\.count).reduce(0, +)
    guard count <= Self.most else {
      throw ProcessHostError(
        .value("the number of devices that background may not open", "\(count)", "at most \(Self.most)"))
    }
  }

  /// Of the hardware, sorted.
  package var names: [String] { devices.keys.sorted().map(\.name) }

  /// Without what is not of `hardware`.
  func limited(to hardware: Set<Hardware>) -> DeviceList {
    DeviceList(devices: devices.filter { hardware.contains($0.key) })
  }

  /// The first hardware that a device is of; `nil`: it is of none.
  func hardware(of device: Device) -> Hardware? {
    devices.keys.sorted().first { devices[$0]?.contains { $0.covers(device) } == true }
  }
}

extension DeviceList.Device {
  /// As `c:116` or `b:7:0`; `nil` where it is none.
  fileprivate init?(_ text: Substring) {
    let words = text.split(separator: ":", omittingEmptySubsequences: false)
    // What the kernel has room for.
    guard (2...3).contains(words.count), ["b", "c"].contains(words[0]),
      words.dropFirst().allSatisfy({ $0.allSatisfy { $0.isASCII && $0.isNumber } }),
      let major = Int32(words[1]), major < 1 << 12
    else { return nil }
    self.init(isBlock: words[0] == "b", major: major)
    guard words.count == 3 else { return }
    guard let number = Int32(words[2]), number < 1 << 20 else { return nil }
    minor = number
  }

  /// - Parameter number: of a node, as stat() has it.
  package init(isBlock: Bool, number: UInt64) {
    self.init(
      isBlock: isBlock,
      major: Int32(truncatingIfNeeded: (number >> 8) & 0xfff | (number >> 32) & 0xffff_f000),
      minor: Int32(truncatingIfNeeded: number & 0xff | (number >> 12) & 0xffff_ff00))
  }
}

extension Hardware {
  /// Keyboards, pointers and joysticks, read past the display.
  static let input = Hardware("input")
}
