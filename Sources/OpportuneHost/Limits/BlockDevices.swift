/// The block devices of the machine.
enum BlockDevices {
  /// Those that are hardware, or that a hypervisor shows as such, as `MAJOR:MINOR`, sorted. Loop devices,
  /// RAM, zram, and what is made of other devices, end at one of these or at none.
  ///
  /// - Parameter folder: has a folder for each; those of partitions are not among them.
  static func physical(in folder: String) -> [String] {
    SystemFile.names(in: folder).compactMap { name in
      guard SystemFile.exists("\(folder)/\(name)/device"),
        let number = SystemFile.text("\(folder)/\(name)/dev")?.prefix(while: { $0 != "\n" }), !number.isEmpty
      else { return nil }
      return String(number)
    }.sorted()
  }
}
