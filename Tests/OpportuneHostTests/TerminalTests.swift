import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// `opportune run` on a terminal, under a shell with job control.
@Suite(.bounded) struct TerminalTests {
  /// Types at a shell on a terminal of its own, and reads what comes; each wait has a bound.
  private static let driver = """
    import os, pty, re, select, subprocess, sys, time
    opportune, socket, backend, shell = sys.argv[1:5]
    pid, terminal = pty.fork()
    if pid == 0:
      # Dispatch's threads block signals, and a child of one inherits that.
      import signal
      signal.pthread_sigmask(signal.SIG_SETMASK, [])
      env = {'PATH': os.environ['PATH'], 'HOME': '/', 'PS1': '$ ', 'LC_ALL': 'C', 'TERM': 'dumb'}
      os.execve(shell, [shell] + (['--norc', '--noediting'] if 'bash' in shell else []) + ['-i'], env)
    seen, place = '', 0
    def expect(pattern):
      global seen, place
      end = time.monotonic() + 30
      while True:
        found = re.search(pattern, seen[place:])
        if found:
          place += found.end()
          return found
        left = end - time.monotonic()
        if left <= 0 or not select.select([terminal], [], [], left)[0]:
          sys.exit('%r did not come, but:\\n%s' % (pattern, seen))
        seen += os.read(terminal, 65536).decode('utf-8', 'replace')
    def type(text): os.write(terminal, text.encode())
    def run(name, program): type("'%s' run --socket '%s' --name %s -- %s\\n" % (opportune, socket, name, program))
    def status(expected):
      type('echo status=$?.\\n')
      expect('status=%d\\\\.' % expected)
    def host(*words):
      subprocess.run([opportune, words[0], '--socket', socket] + list(words[1:]), check=True)

    run('exit', "sh -c 'exit 7'")
    status(7)
    # Input, and its end.
    run('cat', "sh -c 'echo up$((1+1)); exec cat'")
    expect('up2')
    type('hello\\n')
    expect('hello\\r\\nhello\\r\\n')
    type('\\x04')
    status(0)
    # The terminal is the program's: its size, and who may read.
    run('tty', "sh -c 'test -t 0 && test -t 1 && tty && echo is$((2+1))'")
    expect('/dev/pts/[0-9]+')
    expect('is3')
    # Ctrl-C.
    run('sleep', "sh -c 'echo up$((1+2)); exec sleep 600'")
    expect('up3')
    type('\\x03')
    status(130)
    # Who catches it decides.
    run('trap', "sh -c 'trap \\"exit 5\\" INT; echo up$((2+2)); while :; do sleep 0.02; done'")
    expect('up4')
    type('\\x03')
    status(5)
    # Ctrl-Z, and on in the background and in the foreground of the shell.
    run('loop', "sh -c 'echo up$((2+3)); while read line; do echo got-$line; done; echo over$((3+3))'")
    expect('up5')
    type('\\x1a')
    expect('(?i)stopped')
    status(128 + 20)
    # In the host's hands meanwhile.
    host('suspend', 'loop')
    host('resume', 'loop')
    type('fg\\n')
    expect('loop')
    type('once\\n')
    expect('got-once')
    type('\\x1a')
    expect('(?i)stopped')
    type('bg\\n')
    expect('loop')
    # It reads, and stops for that, as any job in background; brought to the front before, it would stop there.
    for _ in range(1000):
      type('jobs\\n')
      if expect('(?i)(stopped|running)').group(1).lower() == 'stopped': break
    else:
      sys.exit('it does not stop for its input')
    type('fg\\n')
    expect('loop')
    type('twice\\n')
    expect('got-twice')
    type('\\x04')
    expect('over6')
    status(0)
    # Frozen it hears of Ctrl-C.
    if backend == 'cgroup':
      run('ice', "sh -c 'echo up$((3+3)); exec sleep 600'")
      expect('up6')
      host('suspend', 'ice')
      type('\\x03')
      status(130)
    # In a pipe, and as a job.
    run('left', "sh -c 'echo through' | sed s/through/passed/")
    expect('passed')
    status(0)
    run('job', "sh -c 'exit 3' &")
    type('wait $!\\n')
    status(3)
    type('exit 0\\n')
    while True:
      try:
        if not os.read(terminal, 65536): break
      except OSError: break
    ended = os.waitpid(pid, 0)[1]
    print('fine' if ended == 0 else 'status %d' % ended)
    """

  @Test(
    .enabled(if: Backends.python != nil, "no python3 is there"), arguments: Backends.usable,
    ["/bin/bash", "/bin/dash"])
  func aTerminalIsTheProgramsOwn(backend: Backend, shell: String) async throws {
    try #require(SystemFile.exists(shell), "there is no \(shell)")
    let place = try Place()
    let host = try await HostProgram(place, backend)
    let driver = [try #require(Backends.python), "-c", Self.driver]
    let ended = try outcome(of: driver + [command().path, place.path, backend.rawValue, shell])
    #expect(ended.output == "fine\n" && ended.errors.isEmpty, "\(ended)")
    try await host.endWhenEmpty()
  }
}
