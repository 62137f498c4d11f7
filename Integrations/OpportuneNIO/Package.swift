// swift-tools-version: 6.1
import PackageDescription

// A package of its own, so that nobody who depends on Opportune resolves SwiftNIO.
let package = Package(
  name: "opportune-nio",
  products: [.library(name: "OpportuneNIO", targets: ["OpportuneNIO"])],
  dependencies: [
    // Without its traits: what only the tools need is not fetched.
    .package(name: "opportune", path: "../..", traits: []),
    .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
  ],
  targets: [
    .target(
      name: "OpportuneNIO",
      dependencies: [
        .product(name: "Opportune", package: "opportune"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ]),
    // The example of the guide.
    .executableTarget(
      name: "ServerInFront",
      dependencies: [
        "OpportuneNIO", .product(name: "Opportune", package: "opportune"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ]),
    // The server that `scripts/test-integrations bench` loads with wrk.
    .executableTarget(
      name: "HandlersBench",
      dependencies: [
        "OpportuneNIO", .product(name: "Opportune", package: "opportune"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ],
      path: "bench/HandlersBench"),
    .testTarget(
      name: "OpportuneNIOTests",
      dependencies: [
        "OpportuneNIO", .product(name: "Opportune", package: "opportune"),
        .product(name: "COpportune", package: "opportune"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOEmbedded", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ]),
  ],
  swiftLanguageModes: [.v6]
)

// `scripts/docs` asks by this variable for what no build of the library needs.
if Context.environment["OPPORTUNE_DOCS"] != nil {
  package.dependencies.append(.package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.5.0"))
}
