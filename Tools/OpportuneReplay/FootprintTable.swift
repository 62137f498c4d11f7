import OpportuneBase

/// The sizes of real apps by percentile, from which a size is drawn for each app of a trace. The result is
/// synthetic: it combines the sizes of one device with the apps of another.
package struct FootprintTable: Sendable, Hashable {
  /// For people and the command.
  package let name: String
  /// Where the sizes are from.
  package let source: String
  /// Bytes at the 0th, 5th … 100th percentile, between which a size is interpolated.
  package let bytes: [UInt64]

  /// Memory when suspended of 36 apps and extensions of an iPad: the largest value that
  /// `PLApplicationAgent_EventBackward_ApplicationMemory.SuspendedMemory` has of each.
  package static let ios = FootprintTable(
    name: "ios",
    source:
      "log2timeline/plaso, commit 4ea03ef9, test_data/ios/powerlog_2021-12-16_05-54_84E2141B.PLSQL (Apache-2.0)",
    bytes: [
      1_294_760, 1_769_976, 1_876_532, 2_195_980, 2_572_792, 4_006_462, 4_612_680, 4_825_732, 5_374_536,
      5_661_326,
      5_964_440, 6_357_626, 7_045_784, 7_606_926, 8_651_436, 9_483_044, 11_141_824, 12_341_962, 13_738_688,
      22_434_576,
      65_110_920,
    ])

  /// Proportional set size of 27 app processes of an Android 10 phone, by "Total PSS by process" of its bug
  /// report.
  package static let android = FootprintTable(
    name: "android",
    source:
      "sonyxperiadev/ChkBugReport, commit 2d0f1f74, bugreport-sailfish-QP1A.191005.007.A3 (measured sizes only)",
    bytes: [
      4_510_720, 6_193_254, 6_762_291, 6_889_984, 6_964_019, 7_328_768, 7_574_733, 7_673_549, 7_924_736,
      8_111_309,
      8_258_560, 9_148_826, 10_286_080, 11_118_797, 11_552_358, 12_317_184, 14_167_450, 19_698_688,
      24_347_443,
      56_574_771, 116_826_112,
    ])

  package static let all = [ios, android]

  /// The size of an app: the same for the same seed, whatever other apps there are.
  package func draw(_ app: String, seed: UInt64) -> UInt64 {
    // FNV-1a of the name.
    let hash = app.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    var generator = SplitMix64(seed: hash ^ seed)
    let place = Double(generator.next() >> 11) / Double(1 << 53 as UInt64) * Double(bytes.count - 1)
    let below = min(Int(place), bytes.count - 2)
    let step = Double(bytes[below + 1] - bytes[below])
    return bytes[below] + UInt64((place - Double(below)) * step)
  }
}
