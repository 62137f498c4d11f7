import ArgumentParser
import OpportuneHost

struct HibernateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "hibernate", abstract: "Stops an app of the host, and takes it out of main memory.",
    discussion: """
      It is suspended as by opportune suspend. Then what it has in main memory is paged out: pages of files to their files, \
      all else to swap, as far as there is some. This returns when that has begun; opportune apps --json tells in notes what \
      has become of it. By opportune front or resume it goes on as it was. It has saved nothing: where it is terminated, what \
      it had not saved before is lost.

      Where there is no swap, CRIU writes the program to files and ends it, where the host was given --criu and that can be: \
      front or resume restores it as it was. Else a program that has a manifest and has said that it can be started anew \
      saves its state, and is ended; front or resume starts it with that. hibernated_by of opportune apps --json says which was done.

      Example: opportune hibernate ide
      """)
  @OptionGroup var stop: AppStop
  func run() throws { try stop.carryOut(.hibernate) }
}
