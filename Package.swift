// swift-tools-version: 6.1
import PackageDescription

// Who depends on the library by its version gets no package that only the tools need: these come with the
// trait "Tools", which is enabled by default in this repository alone. SwiftPM reads the manifest of a
// dependency at "/", and once more in its folder of checkouts.
let isDependency = Context.packageDirectory == "/" || Context.packageDirectory.contains("/checkouts/")
let tools: TargetDependencyCondition? = .when(traits: ["Tools"])

// Flags that SwiftPM calls unsafe would keep users from the command. It goes without them as a dependency:
// the explorer sees no plain accesses there, and counts no edges.
func explorerFlags(_ flags: String...) -> [CSetting] { isDependency ? [] : [.unsafeFlags(flags)] }

// What several targets need of others.
let system = Target.Dependency.product(name: "SystemPackage", package: "swift-system")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let metrics = Target.Dependency.product(name: "CoreMetrics", package: "swift-metrics")
let metricsTestKit = Target.Dependency.product(name: "MetricsTestKit", package: "swift-metrics")
let heap = Target.Dependency.product(name: "HeapModule", package: "swift-collections")
let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift", condition: tools)
let argumentParser = Target.Dependency.product(
  name: "ArgumentParser", package: "swift-argument-parser", condition: tools)

let package = Package(
  name: "opportune",
  products: [
    .library(name: "Opportune", targets: ["Opportune"]),
    // The scheduler alone, without Foundation.
    .library(name: "OpportuneScheduler", targets: ["OpportuneScheduler"]),
    // Apart from Opportune, so that programs without locations do not link PROJ and GEOS.
    .library(name: "OpportuneLocation", targets: ["OpportuneLocation"]),
    // For programs that cooperate with the host of programs.
    .library(name: "OpportuneClient", targets: ["OpportuneClient"]),
    // For tests of a policy of one's own.
    .library(name: "OpportuneFuzz", targets: ["OpportuneFuzz"]),
    .library(name: "COpportune", targets: ["COpportune"]),
    // What CSupport/OpportuneC/Makefile makes libopportune of; for programs without Swift.
    .library(name: "OpportuneC", type: .static, targets: ["OpportuneC"]),
    .executable(name: "opportune", targets: ["OpportuneCommand"]),
  ],
  traits: [
    .trait(name: "Tools", description: "The command, its benches, the fuzzer and the replay of recordings."),
    .default(enabledTraits: isDependency ? [] : ["Tools"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
    .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
  ],
  targets: [
    // The C core: mechanism only. liburing and libnuma are seen by its .c files alone, because
    // their headers clash when Swift imports both.
    .systemLibrary(
      name: "CLiburing", path: "CSupport/System/CLiburing", pkgConfig: "liburing",
      providers: [.apt(["liburing-dev"])]),
    // Its header alone: programs run where the library is missing.
    .systemLibrary(name: "CNuma", path: "CSupport/System/CNuma", providers: [.apt(["libnuma-dev"])]),
    .systemLibrary(
      name: "CZstd", path: "CSupport/System/CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"])]),
    .systemLibrary(
      name: "CXXHash", path: "CSupport/System/CXXHash", pkgConfig: "libxxhash",
      providers: [.apt(["libxxhash-dev"])]),
    // Geodesics of GeographicLib (libgeographiclib-dev), and GEOS for whether polygons are valid.
    .target(
      name: "CGeodesic", path: "CSupport/CGeodesic", linkerSettings: [.linkedLibrary("GeographicLib")]),
    .systemLibrary(
      name: "CGEOS", path: "CSupport/System/CGEOS", pkgConfig: "geos",
      providers: [.apt(["libgeos-dev"])]),
    .target(
      name: "COpportune",
      dependencies: ["CLiburing", "CNuma"],
      path: "CSupport/COpportune",
      cSettings: [.define("_GNU_SOURCE")]),
    // The few symbols of the Swift runtime that no public interface offers, kept apart from the C core, which
    // C programs link without Swift.
    .target(
      name: "COpportuneRuntime", path: "CSupport/COpportuneRuntime", cSettings: [.define("_GNU_SOURCE")]),
    // The explorer of interleavings, and the core compiled once more, from its own sources, with each
    // synchronisation a step of the explorer. The compiler reports plain accesses too, for races, and the
    // edges that ran. Both are optimised in debug builds as well, where they would explore a fifth as much.
    .target(
      name: "COpportuneExplorer", path: "CSupport/Tools/COpportuneExplorer",
      cSettings: [.define("_GNU_SOURCE")] + explorerFlags("-O2")),
    .target(
      name: "COpportuneChecked",
      dependencies: ["COpportuneExplorer"],
      path: "CSupport/Tools/COpportuneChecked",
      cSettings: [
        .define("_GNU_SOURCE"), .define("OPP_CHECKED"), .headerSearchPath("../../COpportune/include"),
      ]
        + explorerFlags(
          "-O2", "-fno-optimize-sibling-calls",
          "-fsanitize-coverage=inline-8bit-counters,trace-loads,trace-stores")),
    // Starting programs inside a group, the classes of others' threads, and the warden, for the host of Linux
    // processes.
    .target(
      name: "COpportuneHost", path: "CSupport/COpportuneHost", cSettings: [.define("_GNU_SOURCE")]),
    .target(
      name: "OpportuneFuzz", dependencies: ["OpportuneBase", "COpportuneChecked", "COpportuneExplorer"],
      path: "Tools/OpportuneFuzz"),
    // What every module may need, and no user: time, numbers, collections, how text of others is printed.
    .target(
      name: "OpportuneBase", dependencies: [heap]),
    .target(
      name: "OpportuneScheduler",
      dependencies: [
        "OpportuneBase", "COpportune", "COpportuneRuntime", heap, logging, metrics,
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ]),
    .target(name: "OpportuneApps", dependencies: ["OpportuneBase", "OpportuneScheduler", "COpportune"]),
    // Apps are Linux processes, not written for it.
    .target(
      name: "OpportuneHost",
      dependencies: [
        "OpportuneBase", "OpportuneScheduler", "OpportuneApps", "OpportuneMemory", "COpportuneHost",
      ]),
    // How a program joins that host: in C, a library of its own as well, and in Swift.
    .target(
      name: "COpportuneClient", path: "CSupport/OpportuneClient",
      exclude: ["Makefile", "opportune-client.map", "opportune-client.pc.in"],
      cSettings: [.define("_GNU_SOURCE")]),
    .target(
      name: "OpportuneClient", dependencies: ["OpportuneBase", "OpportuneApps", "COpportuneClient"]),
    .target(
      name: "OpportuneLocation",
      dependencies: ["OpportuneBase", "OpportuneApps", "OpportuneIO", "CGeodesic", "CGEOS", heap, system]),
    .target(
      name: "OpportuneIO",
      dependencies: [
        "OpportuneBase", "OpportuneScheduler", "COpportune", system,
        .product(name: "DequeModule", package: "swift-collections"), logging, metrics,
      ]),
    .target(
      name: "OpportuneMemory",
      dependencies: ["OpportuneBase", "COpportune", "CXXHash", "CZstd", metrics]),
    .target(
      name: "Opportune",
      dependencies: [
        "OpportuneBase", "OpportuneScheduler", "OpportuneIO", "OpportuneMemory", "OpportuneApps", system,
      ]),
    // opportune.h, the interface for C, and its implementation by functions that Swift gives to C.
    .target(
      name: "COpportuneC", path: "CSupport/OpportuneC", exclude: ["Makefile", "install"],
      cSettings: [.define("_GNU_SOURCE")]),
    .target(
      name: "OpportuneC",
      dependencies: [
        "OpportuneBase", "OpportuneScheduler", "OpportuneIO", "OpportuneMemory", "COpportuneC", system,
      ]),
    // Programs that tools start, and their scratch folders.
    .target(name: "ToolSupport", dependencies: ["OpportuneBase"], path: "Tools/ToolSupport"),
    // Recorded ways: their files, their replay in virtual time and live, and its page. For the command and
    // tests.
    .target(
      name: "OpportuneTraces",
      dependencies: ["OpportuneBase", "OpportuneApps", "OpportuneLocation", "ToolSupport"],
      path: "Tools/OpportuneTraces"),
    // The loops of `opportune bench io` below Swift, among them one over bare liburing.
    .target(
      name: "COpportuneBench", dependencies: ["COpportune", "CLiburing"],
      path: "CSupport/Tools/COpportuneBench",
      cSettings: [.define("_GNU_SOURCE")]),
    .target(
      name: "OpportuneBench",
      dependencies: [
        "OpportuneBase", "Opportune", "COpportune", "COpportuneBench", "OpportuneHost", "OpportuneIO",
        "OpportuneLocation", "OpportuneTraces", "ToolSupport", system,
        .product(name: "Histogram", package: "hdrhistogram-swift", condition: tools),
      ],
      path: "Tools/OpportuneBench"),
    // Recorded use of real devices, in virtual time. Apart from the library, so that programs do not link
    // SQLite.
    .target(
      name: "OpportuneReplay",
      dependencies: ["OpportuneBase", "Opportune", "OpportuneApps", "ToolSupport", grdb],
      path: "Tools/OpportuneReplay"),
    // What the layers above the core promise, as judges that know nothing of how they keep it. For tests and
    // fuzzing.
    .target(
      name: "OpportuneModels",
      dependencies: [
        "OpportuneBase", "OpportuneScheduler", "OpportuneIO", "OpportuneApps", "OpportuneMemory",
      ],
      path: "Tools/OpportuneModels"),
    // What the client library reads and writes, from its own source once more, for the fuzzer.
    .target(
      name: "COpportuneClientLines", path: "CSupport/Tools/COpportuneClientLines",
      cSettings: [.define("_GNU_SOURCE")]),
    // The targets of `opportune fuzz` above the core.
    .target(
      name: "OpportuneProperties",
      dependencies: [
        "OpportuneBase", "OpportuneFuzz", "OpportuneModels", "OpportuneScheduler", "OpportuneIO",
        "OpportuneApps", "OpportuneHost", "OpportuneMemory", "OpportuneLocation", "OpportuneReplay",
        "OpportuneTraces", "ToolSupport", "COpportuneClientLines", grdb, system,
      ],
      path: "Tools/OpportuneProperties"),
    // The arguments of the command, which Swift reads from /proc, and the commit that it was built of.
    .target(
      name: "COpportuneArguments", path: "CSupport/Tools/COpportuneArguments",
      cSettings: Context.environment["OPPORTUNE_COMMIT"].map { [.define("OPP_COMMIT", to: "\"\($0)\"")] }
        ?? []
    ),
    .executableTarget(
      name: "OpportuneCommand",
      dependencies: [
        "OpportuneBase", "Opportune", "OpportuneBench", "OpportuneFuzz", "OpportuneProperties",
        "OpportuneLocation", "OpportuneHost", "OpportuneReplay", "OpportuneTraces", "ToolSupport",
        "COpportune", "COpportuneArguments", argumentParser, logging,
      ],
      path: "Tools/OpportuneCommand"),
    // The programs of docs/guide, all in one, so that they cost one link.
    .executableTarget(
      name: "Guide",
      dependencies: ["Opportune", "OpportuneFuzz", "OpportuneLocation", logging, metrics, metricsTestKit],
      path: "docs/examples/Guide", packageAccess: false),
    .target(
      name: "TestSupport", dependencies: ["OpportuneBase", logging],
      path: "Tests/TestSupport"),
    // The examples of docs/api.md.
    .testTarget(
      name: "OpportuneAPITests", dependencies: ["Opportune", "OpportuneLocation", "Guide", "TestSupport"],
      packageAccess: false),
    .testTarget(name: "OpportuneBaseTests", dependencies: ["OpportuneBase", "TestSupport"]),
    .testTarget(
      name: "OpportuneSchedulerTests",
      dependencies: [
        "OpportuneScheduler", "OpportuneModels", "COpportune", "TestSupport", metricsTestKit,
        .product(name: "ServiceLifecycleTestKit", package: "swift-service-lifecycle"),
      ]),
    .testTarget(
      name: "OpportuneAppsTests",
      dependencies: ["Opportune", "OpportuneApps", "OpportuneModels", "TestSupport", logging, system]),
    .testTarget(
      name: "OpportuneHostTests",
      dependencies: [
        "OpportuneHost", "OpportuneApps", "OpportuneBase", "OpportuneCommand", "COpportuneHost", "Cooperate",
        "DayProgram", "TestSupport",
      ]),
    // What HostDay has a host launch.
    .executableTarget(name: "DayProgram", path: "Tests/DayProgram"),
    // Kills programs that use a hibernation store, and checks what is left: a program, so that it can be
    // killed.
    .executableTarget(
      name: "StoreCrash", dependencies: ["OpportuneMemory", "TestSupport"], path: "Tests/StoreCrash"),
    .testTarget(
      name: "OpportuneMemoryTests",
      dependencies: [
        "OpportuneMemory", "OpportuneModels", "COpportune", "StoreCrash", "TestSupport", metricsTestKit,
      ]),
    .testTarget(
      name: "OpportuneLocationTests",
      dependencies: [
        "OpportuneLocation", "OpportuneTraces", "OpportuneApps", "OpportuneIO", "TestSupport", system,
      ]),
    .testTarget(
      name: "OpportuneReplayTests",
      dependencies: ["OpportuneReplay", "OpportuneApps", "TestSupport", grdb],
      resources: [.copy("Fixtures")]),
    .testTarget(
      name: "OpportuneFuzzTests",
      dependencies: ["OpportuneFuzz", "COpportuneChecked", "COpportuneExplorer", "TestSupport"],
      resources: [.copy("Examples")]),
    .testTarget(
      name: "OpportunePropertiesTests",
      dependencies: [
        "OpportuneBase", "OpportuneProperties", "OpportuneFuzz", "OpportuneHost", "OpportuneModels",
        "TestSupport",
      ],
      resources: [.copy("Examples")]),
    .target(name: "CIOTestSupport", path: "Tests/CIOTestSupport", cSettings: [.define("_GNU_SOURCE")]),
    .testTarget(
      name: "OpportuneIOTests",
      dependencies: [
        "OpportuneIO", "OpportuneScheduler", "COpportune", "CIOTestSupport", "TestSupport", metricsTestKit,
      ]),
    .testTarget(
      name: "OpportuneBenchTests",
      dependencies: ["OpportuneBench", "OpportuneLocation", "OpportuneTraces", "TestSupport", "ToolSupport"]),
    .testTarget(
      name: "OpportuneCommandTests",
      dependencies: [
        "OpportuneCommand", "Opportune", "OpportuneFuzz", "OpportuneProperties", "OpportuneReplay",
        "TestSupport", argumentParser, system,
      ],
      resources: [.copy("Fixtures")]),
  ],
  swiftLanguageModes: [.v6],
  cLanguageStandard: .c11
)

// Examples see what users see, and no more.
for (name, module) in [
  "TenLines": "Opportune", "SearchServer": "Opportune", "LaunchTimes": "Opportune", "Player": "Opportune",
  "Mail": "Opportune", "Watched": "Opportune", "Cooperate": "OpportuneClient",
].sorted(by: <) {
  package.targets.append(
    .executableTarget(
      name: name, dependencies: [.byName(name: module)], path: "docs/examples/\(name)", packageAccess: false))
}

// An asynchronous function runs where its caller does (SE-0461, docs/decisions/0033). Else each call and each
// return in an app's task asks for the task's executor, which takes a lock. Tests are as programs without it.
for target in package.targets where ![.system, .test].contains(target.type) && target.name != "TestSupport" {
  target.swiftSettings =
    (target.swiftSettings ?? []) + [.enableUpcomingFeature("NonisolatedNonsendingByDefault")]
}

// `make lint` turns warnings into errors by this variable. A flag on the command line would do so for the
// dependencies as well.
if Context.environment["OPPORTUNE_STRICT"] != nil {
  for target in package.targets where target.type != .system {
    target.swiftSettings = (target.swiftSettings ?? []) + [.unsafeFlags(["-warnings-as-errors"])]
    target.cSettings =
      (target.cSettings ?? []) + [
        .unsafeFlags(["-Wall", "-Wextra", "-Wmissing-prototypes", "-Werror"])
      ]
  }
}

// `scripts/bench` asks by this variable for the search server on SwiftNIO, which it measures beside ours: no
// other build resolves SwiftNIO. In this package the compiler optimises the engine, in one of its own it
// crashes.
if Context.environment["OPPORTUNE_RIVALS"] != nil {
  package.dependencies.append(.package(url: "https://github.com/apple/swift-nio", from: "2.80.0"))
  package.targets.append(
    .executableTarget(
      name: "ServeRival",
      dependencies: [
        "OpportuneBench", .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ],
      path: "Tools/ServeRival"))
}

// `scripts/docs` asks by this variable for what no build of the library needs.
if Context.environment["OPPORTUNE_DOCS"] != nil {
  package.dependencies.append(.package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.5.0"))
}

// `scripts/explore-coverage` builds libFuzzer's driver of the targets above the core by this variable, which
// is where libFuzzer lies; all of ours tells it which edges run, but for the explorer, whose own would drown
// the others.
if let libFuzzer = Context.environment["OPPORTUNE_LIBFUZZER"] {
  for target in package.targets where target.type != .system {
    target.swiftSettings = (target.swiftSettings ?? []) + [.unsafeFlags(["-sanitize=fuzzer"])]
    target.cSettings =
      (target.cSettings ?? [])
      + [
        target.name == "COpportuneExplorer"
          ? .define("OPP_LIBFUZZER") : .unsafeFlags(["-fsanitize=fuzzer-no-link"])
      ]
  }
  package.targets += [
    .systemLibrary(name: "CLibFuzzer", path: "CSupport/Tools/CLibFuzzer"),
    .executableTarget(
      name: "LibFuzzer", dependencies: ["CLibFuzzer", "OpportuneFuzz", "OpportuneProperties"],
      path: "Tests/LibFuzzer",
      linkerSettings: [.unsafeFlags(["-Xlinker", libFuzzer, "-lstdc++"])]),
  ]
}

// `scripts/sanitize` leaves out by this variable what it runs no tests of, so that there is less to build.
if Context.environment["OPPORTUNE_CONCURRENT_ONLY"] != nil {
  let kept: Set = [
    "CLiburing", "CNuma", "CXXHash", "CZstd", "COpportune", "COpportuneRuntime", "OpportuneBase",
    "OpportuneScheduler",
    "OpportuneIO", "OpportuneMemory", "OpportuneApps", "Opportune", "OpportuneModels", "TestSupport",
    "CIOTestSupport",
    "StoreCrash", "OpportuneBaseTests",
    "OpportuneSchedulerTests", "OpportuneIOTests", "OpportuneMemoryTests", "OpportuneAppsTests",
  ]
  package.targets.removeAll { !kept.contains($0.name) }
  // The rest of it is one thread in virtual time.
  package.targets.first { $0.name == "OpportuneAppsTests" }?.sources = ["Live", "Rig.swift"]
  package.products.removeAll { !["Opportune", "OpportuneScheduler", "COpportune"].contains($0.name) }
  // With the tests SwiftPM builds all of each dependency.
  let used: Set = [
    "swift-log", "swift-metrics", "swift-service-lifecycle", "swift-system", "swift-collections",
  ]
  package.dependencies.removeAll { dependency in
    guard case .sourceControl(_, let location, _) = dependency.kind else { return false }
    return !used.contains { location.hasSuffix("/" + $0) }
  }
}
