/// The run as one page that needs nothing else.
public enum HTMLReport {
  public static func render(_ report: BenchReport) -> String { "" }
}
