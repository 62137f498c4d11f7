import Glibc
import Synchronization

/// Set by Ctrl-C; read by a long run every tenth of a second.
private let wasInterruptedFlag = Atomic<Bool>(false)

@Sendable func wasInterrupted() -> Bool { wasInterruptedFlag.load(ordering: .relaxed) }

/// The first Ctrl-C asks the run to end; a second one ends the program.
func interceptInterrupts() {
  _ = wasInterrupted()  // initialised before a handler may need it
  var action = sigaction()
  action.__sigaction_handler.sa_handler = { _ in wasInterruptedFlag.store(true, ordering: .relaxed) }
  // The default action comes back with the first signal; system calls go on.
  action.sa_flags = Int32(bitPattern: UInt32(SA_RESETHAND)) | Int32(SA_RESTART)
  sigaction(SIGINT, &action, nil)
}
