/// Waits in the kernel of the layers above, on the thread of a worker.
package enum WorkerWait {
  /// Calls `body`, which waits in the kernel for a short time: some hundred microseconds, and longer only
  /// where the device is in trouble. Where the calling worker has a run token, another takes its place
  /// meanwhile.
  ///
  /// - Returns: nil, without calling it, if the calling thread is no worker of a scheduler's foreground pool,
  ///   is the spare worker, or runs a demoted job at `SCHED_IDLE` and may not be raised.
  package static func perform<Value>(_ body: () -> Value) -> Value? { Worker.waiting(body) }
}
