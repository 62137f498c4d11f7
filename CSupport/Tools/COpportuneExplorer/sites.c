/* The places that name a memory order, which each put a record into one section; and which code has run. */
#include "state.h"

#include <string.h>

extern oppx_site __start_oppx_sites[] __attribute__((weak));
extern oppx_site __stop_oppx_sites[] __attribute__((weak));

oppx_site *oppx_sites(size_t *count) {
    *count = (size_t)(__stop_oppx_sites - __start_oppx_sites);
    return __start_oppx_sites;
}

const char *oppx_order_name(uint8_t order) {
    static const char *const names[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
    return order < sizeof(names) / sizeof(names[0]) ? names[order] : "?";
}

const char *site_file(const oppx_site *site) {
    const char *slash = strrchr(site->file, '/');
    return slash != NULL ? slash + 1 : site->file;
}

const char *site_object(const oppx_site *site) {
    return site->object[0] == '&' ? site->object + 1 : site->object;
}

/* --- Coverage: a counter an edge, from -fsanitize-coverage=inline-8bit-counters ---------------- */

#define RANGES 64

static struct {
    uint8_t *start, *end;
} ranges[RANGES];
static int range_count;

#ifndef OPP_LIBFUZZER
void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *end);
void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *end) {
    for (int i = 0; i < range_count; i++)
        if (ranges[i].start == start) return;
    if (range_count == RANGES) return;
    ranges[range_count].start = start;
    ranges[range_count++].end = end;
}
#endif

void oppx_coverage_begin(void) {
    for (int i = 0; i < range_count; i++)
        memset(ranges[i].start, 0, (size_t)(ranges[i].end - ranges[i].start));
}

void oppx_coverage(size_t *covered, size_t *edges) {
    *covered = *edges = 0;
    for (int i = 0; i < range_count; i++)
        for (const uint8_t *counter = ranges[i].start; counter < ranges[i].end; counter++) {
            *edges += 1;
            *covered += *counter != 0;
        }
}
