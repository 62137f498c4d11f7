import Foundation

/// The paths of the recorded failures in the folder Examples of a test bundle, in order.
public func exampleFiles(of bundle: Bundle) -> [String] {
  let folder = bundle.resourceURL?.appendingPathComponent("Examples").path ?? ""
  let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
  return names.filter { $0.hasSuffix(".example") }.sorted().map { folder + "/" + $0 }
}
