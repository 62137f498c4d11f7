// swift-tools-version: 6.1
import PackageDescription

// A package of its own, so that users of the library never fetch what only benchmarks need.
let package = Package(
  name: "opportune-bench",
  dependencies: [
    .package(name: "opportune", path: ".."),
    // Without its traits it needs no allocator of its own; `scripts/count-ops` counts allocations instead.
    .package(url: "https://github.com/ordo-one/benchmark", from: "1.38.1", traits: []),
  ],
  targets: [
    .executableTarget(
      name: "OpportuneMicro",
      dependencies: [
        .product(name: "Opportune", package: "opportune"),
        .product(name: "COpportune", package: "opportune"),
        .product(name: "Benchmark", package: "benchmark"),
      ],
      path: "Benchmarks/OpportuneMicro",
      plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")])
  ],
  swiftLanguageModes: [.v6]
)
