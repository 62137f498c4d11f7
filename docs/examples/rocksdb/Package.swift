// swift-tools-version: 6.1
import PackageDescription

// A package of its own, so that nobody who uses or builds Opportune needs RocksDB.
let package = Package(
  name: "opportune-rocksdb",
  dependencies: [
    // Without its traits: what only the tools need is not fetched.
    .package(name: "opportune", path: "../../..", traits: [])
  ],
  targets: [
    // RocksDB's interface is C++; this is as much of it in C as the Swift beside it uses.
    .target(name: "CRocksDB", linkerSettings: [.linkedLibrary("rocksdb")]),
    .target(
      name: "OpportuneRocksDB",
      dependencies: ["CRocksDB", .product(name: "Opportune", package: "opportune")]),
    .executableTarget(
      name: "ReadWhileWriting",
      dependencies: ["CRocksDB", "OpportuneRocksDB", .product(name: "Opportune", package: "opportune")]),
    .testTarget(
      name: "OpportuneRocksDBTests",
      dependencies: ["CRocksDB", "OpportuneRocksDB", .product(name: "Opportune", package: "opportune")]),
  ],
  swiftLanguageModes: [.v6],
  cxxLanguageStandard: .cxx17
)
