/*
 * The explorer for somebody's own code: what scripts/explore-own links with a file that defines own_target
 * and own_worlds. Each world is explored to its end, then random programs run for a while.
 *
 * Options: --ms MS for each world, and for the random programs; --seed N of these.
 */
#include "opp_own.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[1 << 20];

static int tell(oppx *explorer, oppx_finding *finding) {
    oppx_shrink(explorer, &own_target, finding, 10000);
    printf("FOUND: %s\n\n", oppx_finding_message(finding));
    oppx_timeline(explorer, &own_target, finding, text, sizeof text);
    puts(text);
    return 1;
}

int main(int count, char **arguments) {
    uint64_t ms = 2000, seed = 1;
    for (int i = 1; i < count; i += 2) {
        uint64_t *option = !strcmp(arguments[i], "--ms") ? &ms : !strcmp(arguments[i], "--seed") ? &seed : NULL;
        char *end = "?";
        if (option != NULL && i + 1 < count) *option = strtoull(arguments[i + 1], &end, 10);
        if (*end != 0) {
            fprintf(stderr, "'%s' is no option with a number; there are --ms MS and --seed N\n", arguments[i]);
            return 64;
        }
    }
    oppx *explorer = oppx_create();
    oppx_finding *finding = oppx_finding_create();
    if (explorer == NULL || finding == NULL) return 2;
    oppx_figures figures;
    for (const oppx_world *world = own_worlds; world->name != NULL; world++) {
        oppx_program program;
        if (oppx_program_parse(&own_target, world->program, &program, text) != 0) {
            fprintf(stderr, "world %s: %s\n", world->name, text);
            return 64;
        }
        oppx_bounds bounds = {world->preemptions, world->stale, world->stalls, world->early, world->refusals};
        oppx_exhaust(explorer, &own_target, &program, bounds, (oppx_budget){.milliseconds = ms}, &figures,
                     finding);
        printf("%s: %" PRIu64 " executions, %" PRIu64 " states, %s\n", world->name, figures.executions,
               figures.states, figures.complete ? "all within the bounds" : "not to the end");
        if (oppx_finding_found(finding)) return tell(explorer, finding);
    }
    oppx_fuzz(explorer, &own_target, NULL, seed, (oppx_budget){.milliseconds = ms}, &figures, finding);
    printf("random: %" PRIu64 " executions\n", figures.executions);
    return oppx_finding_found(finding) ? tell(explorer, finding) : 0;
}
