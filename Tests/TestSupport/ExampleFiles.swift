import Foundation

/// The paths of the failures of the past that a test bundle has in its folder Examples, in order.
public func exampleFiles(of bundle: Bundle) -> [String] {
  let folder = bundle.resourceURL?.appendingPathComponent("Examples").path ?? ""
  let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
  return names.filter { $0.hasSuffix(".example") }.sorted().map { folder + "/" + $0 }
}
