// swift-tools-version: 6.1
import PackageDescription

// A package of its own, so that users of the library never fetch what only benchmarks need. The queues of the
// C core are measured by `core/`, which needs no Swift: see `scripts/bench-core`.
let package = Package(
  name: "opportune-bench",
  dependencies: [
    .package(name: "opportune", path: ".."),
    // Without its traits it needs no allocator of its own; `scripts/count-ops` counts allocations instead.
    .package(url: "https://github.com/ordo-one/benchmark", from: "1.38.1", traits: []),
    .package(url: "https://github.com/apple/swift-nio", from: "2.80.0"),
  ],
  targets: [
    // The operations and their rivals, for both programs below.
    .target(
      name: "Operations",
      dependencies: [.product(name: "Opportune", package: "opportune")]),
    .executableTarget(
      name: "OpportuneMicro",
      dependencies: ["Operations", .product(name: "Benchmark", package: "benchmark")],
      path: "Benchmarks/OpportuneMicro",
      plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")]),
    // SwiftNIO's echo server, which `opportune bench io --echo-rival` measures beside the broker's.
    .executableTarget(
      name: "EchoRival",
      dependencies: [
        .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
      ]),
    // Does one operation so many times, for `scripts/count-ops`.
    .executableTarget(name: "OpportuneOps", dependencies: ["Operations"]),
  ],
  swiftLanguageModes: [.v6]
)
