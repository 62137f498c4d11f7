import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneHost

/// Which devices are taken from background. No kernel is asked.
@Suite(.bounded) struct DeviceListTests {
  private func refusal(_ text: String) -> String? {
    do {
      _ = try DeviceList(text)
      return nil
    } catch { return error.message }
  }

  // R-HW-02, R-GFX-02
  @Test func theListIsDataAndMayBeExtended() throws {
    #expect(DeviceList.standard.names == ["camera", "gpu", "input", "microphone"])
    #expect(DeviceList.standard.hardware(of: .init(major: 226, minor: 128)) == .gpu)
    #expect(DeviceList.standard.hardware(of: .init(isBlock: true, major: 226, minor: 128)) == nil)
    #expect(DeviceList.standard.hardware(of: .init(major: 1, minor: 3)) == nil)
    #expect(try DeviceList("none").devices.isEmpty)
    #expect(try DeviceList("gpu,camera,microphone,input") == .standard)
    let own = try DeviceList("gpu,dvb=c:212,disk=b:7:0,dvb=c:10:237")
    #expect(own.names == ["disk", "dvb", "gpu"])
    #expect(own.devices[Hardware("dvb")] == [.init(major: 212), .init(major: 10, minor: 237)])
    #expect(own.devices[Hardware("disk")] == [.init(isBlock: true, major: 7, minor: 0)])
    #expect(own.hardware(of: .init(major: 10, minor: 237)) == Hardware("dvb"))
    #expect(own.hardware(of: .init(major: 10, minor: 238)) == nil)
    #expect(own.limited(to: [.gpu, .camera]).names == ["gpu"])
  }

  @Test(arguments: [
    "", "gpu,", "GPU", "gpu,none", "speaker", "a b=c:1", "x=", "x=c", "x=c:", "x=c:1:", "x=d:1", "x=c:4096",
    "x=c:-1", "x=c:1:1048576", "x=c:1:2:3", "=c:1", "x=c:+1",
  ]) func whatIsNoDeviceIsRefused(text: String) throws {
    let message = try #require(refusal(text))
    let word = text.split(separator: ",", omittingEmptySubsequences: false).last { $0 != "gpu" } ?? ""
    #expect(message.contains("'\(word)'") && message.contains("expected"), "\(message)")
  }

  @Test func thereIsABoundOfDevices() throws {
    #expect(try DeviceList((0..<64).map { "x=c:\($0)" }.joined(separator: ",")).devices.count == 1)
    #expect(refusal((0..<65).map { "x=c:\($0)" }.joined(separator: ","))?.contains("65: at most 64") == true)
  }

  @Test func numbersOfNodesAreRead() {
    #expect(
      DeviceList.Device(isBlock: false, number: 0xe280) == DeviceList.Device(major: 226, minor: 128))
    // As glibc's makedev() packs 4095 and 1048575.
    #expect(
      DeviceList.Device(isBlock: true, number: 0xffff_ffff)
        == DeviceList.Device(isBlock: true, major: 4095, minor: 1_048_575))
  }

  // R-HW-03
  @Test(arguments: [
    ("", []), ("X-Opportune-BackgroundModes=audio;", ["microphone"]),
    ("X-Opportune-BackgroundModes=voip;", ["microphone"]), ("X-Opportune-BackgroundModes=location;", []),
    ("X-Opportune-Devices=allow", ["camera", "gpu", "input", "microphone"]), ("X-Opportune-Devices=deny", []),
  ]) func theManifestSaysWhatIsKept(line: String, kept: [String]) throws {
    let text = "[Desktop Entry]\nType=Application\nName=A\nExec=a\n\(line)\n"
    let manifest = try #require(try HostManifest(file: "/x/a.desktop", bytes: Array(text.utf8)))
    #expect(manifest.kept(of: Set(DeviceList.standard.devices.keys)).sorted().map(\.name) == kept)
  }
}
