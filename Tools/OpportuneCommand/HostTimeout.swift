import ArgumentParser

/// How long a command waits for a running host, which may hang.
struct HostTimeout: ParsableArguments {
  @Option(help: "Seconds that the host may take to answer, 0.1 to 3600.") var timeout = 10.0

  func validate() throws { try checkRange(timeout, "--timeout", 0.1...3600) }

  var limit: Duration { .milliseconds(Int64(timeout * 1000)) }
}
