#include "opp_arguments.h"

#include <stddef.h>

static char *nothing[] = {NULL};
static char *const *arguments = nothing;

/* The C library of GNU calls each constructor with what main() gets. */
__attribute__((constructor)) static void keep(int count, char **all) {
    if (count > 0) arguments = all + 1;
}

char *const *opp_arguments(void) {
    return arguments;
}

#ifndef OPP_COMMIT
#define OPP_COMMIT ""
#endif

const char *opp_build_commit(void) {
    return OPP_COMMIT;
}
