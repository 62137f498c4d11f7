/*
 * The coverage-guided driver: libFuzzer's bytes choose a program and its schedule, and a broken promise ends
 * it, with the timeline. scripts/explore-coverage builds and runs it; OPPORTUNE_TARGET names the target.
 */
#include "opp_checked.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static oppx *explorer;
static const oppx_target *target;
static oppx_finding finding;
static char text[1 << 20];

int LLVMFuzzerInitialize(int *count, char ***arguments) {
    (void)count, (void)arguments;
    const char *name = getenv("OPPORTUNE_TARGET");
    target = checked_target_named(name != NULL ? name : "runq");
    explorer = target != NULL ? oppx_create() : NULL;
    if (explorer != NULL) return 0;
    fprintf(stderr, "explore-coverage: '%s' is not a target, or memory is short\n",
            name != NULL ? name : "runq");
    exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (!oppx_run_bytes(explorer, target, bytes, size, &finding)) return 0;
    oppx_shrink(explorer, target, &finding, 20000);
    oppx_timeline(explorer, target, &finding, text, sizeof(text));
    fputs(text, stderr);
    oppx_finding_print(target, &finding, text, sizeof(text));
    fprintf(stderr, "\n%s: %s\nRun it again with:  opportune fuzz --replay /dev/stdin <<'END'\n%sEND\n",
            target->name,
            finding.message, text);
    _Exit(77); /* the text above says more than the bytes that libFuzzer would keep */
}
