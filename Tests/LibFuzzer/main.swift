import CLibFuzzer
import Glibc

// The coverage-guided driver of the targets above the core: libFuzzer's bytes are the input, and a violated
// property ends the process. `scripts/explore-coverage` builds and runs it. OPPORTUNE_TARGET names the
// target; the last argument is the folder of the corpus.
if let corpus = CommandLine.arguments.dropFirst().last { writeFirstInputs(to: corpus, count: 100) }
var count = CommandLine.argc
var arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = CommandLine.unsafeArgv
exit(LLVMFuzzerRunDriver(&count, &arguments, runOnce))
