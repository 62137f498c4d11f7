#ifndef OPP_ARGUMENTS_H
#define OPP_ARGUMENTS_H

/*
 * The arguments that the program was started with, after its name, and a null pointer behind the last. Swift
 * takes them from /proc/self/cmdline, and has none where /proc is not mounted; these come from the C library.
 * Any thread; valid for good.
 */
char *_Nullable const *_Nonnull opp_arguments(void);

/*
 * The commit that the command was built of, as the scripts tell it by OPPORTUNE_COMMIT (Package.swift); ""
 * where it was built without them.
 */
const char *_Nonnull opp_build_commit(void);

#endif
