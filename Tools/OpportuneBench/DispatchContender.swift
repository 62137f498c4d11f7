import Dispatch

/// The global queues of Dispatch: user-interactive beside background.
final class DispatchContender: Contender {
  let name = "dispatch"
  let lockFreeNote = "no: lock-free push, a stopped producer hides later entries"

  func submitForeground(_ job: @escaping Job) -> Bool {
    DispatchQueue.global(qos: .userInteractive).async(execute: job)
    return true
  }

  func submitBackground(_ job: @escaping Job) -> Bool {
    DispatchQueue.global(qos: .background).async(execute: job)
    return true
  }
}
