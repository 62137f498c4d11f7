/* The timeline: a column a thread, a line a step. */
#include "state.h"

#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INDENT 6 /* by thread: columns would be too narrow for what a step has to say */

void note_step(oppx *x, const char *format, ...) {
    if (x->record_count >= RECORDS) return;
    record *record = &x->records[x->record_count++];
    record->thread = x->running;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(record->text, sizeof(record->text), format, arguments);
    va_end(arguments);
}

void oppx_note(const char *format, ...) {
    oppx *x = oppx_self;
    if (x == NULL || !NOTED(x) || x->record_count >= RECORDS) return;
    record *record = &x->records[x->record_count++];
    record->thread = x->running;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(record->text, sizeof(record->text), format, arguments);
    va_end(arguments);
}

static size_t append(char *text, size_t size, size_t at, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(at < size ? text + at : NULL, at < size ? size - at : 0, format, arguments);
    va_end(arguments);
    return at + (length < 0 ? 0 : (size_t)length);
}

/* --- What a race is between ------------------------------------------------------------------ */

typedef struct place { /* in the source: "in take at queue.c:26" */
    char text[160];
} place;

/* The first object is the program: where it was loaded. */
static int program_base(struct dl_phdr_info *info, size_t size, void *base) {
    (void)size;
    *(uintptr_t *)base = info->dlpi_addr;
    return 1;
}

/* The places of instructions, by what stands behind them; addresses, where no tool is there that knows. Those
 * answer by an address, then a function and a line, of what was inlined first: that of LLVM, for addr2line
 * does not always see what clang has inlined. */
static void find_places(const void *const *code, place *places, int count) {
    uintptr_t base = 0;
    dl_iterate_phdr(program_base, &base);
    char what[120], command[400], function[80], line[400];
    int length = snprintf(what, sizeof(what), "-a -f -i -e /proc/%d/exe", (int)getpid());
    for (int i = 0; i < count; i++) {
        uintptr_t address = (uintptr_t)code[i] - base - 1;
        snprintf(places[i].text, sizeof(places[i].text), "at the instruction 0x%zx", (size_t)address);
        length += snprintf(what + length, sizeof(what) - (size_t)length, " 0x%zx", (size_t)address);
    }
    snprintf(command, sizeof(command), "{ llvm-symbolizer --output-style=GNU %s || addr2line %s; } 2>/dev/null",
             what, what);
    FILE *answer = popen(command, "r");
    if (answer == NULL) return;
    for (int i = 0; i < count && fgets(line, sizeof(line), answer) != NULL;) {
        if (strncmp(line, "0x", 2) != 0) continue;
        if (fgets(line, sizeof(line), answer) == NULL) break;
        snprintf(function, sizeof(function), "%.*s", (int)strcspn(line, "\n"), line);
        if (fgets(line, sizeof(line), answer) == NULL) break;
        char *slash = strrchr(line, '/'), *file = slash != NULL ? slash + 1 : line;
        file[strcspn(file, " \n")] = 0; /* without " (discriminator 2)" */
        if (*file != '?') snprintf(places[i].text, sizeof(places[i].text), "in %s at %s", function, file);
        i++;
    }
    pclose(answer);
}

static const char *thread_name(uint32_t thread, char *name, size_t size) {
    if (thread == 0) return "the main thread";
    snprintf(name, size, "thread %u", thread);
    return name;
}

static size_t append_use(char *text, size_t size, size_t at, const use *use, uint32_t start,
                         const place *place) {
    char name[24];
    at = append(text, size, at, "  %s ", thread_name(use->thread, name, sizeof(name)));
    if (use->kind == USE_FREE) return append(text, size, at, "frees it %s\n", place->text);
    const char *does = use->kind == USE_WRITE ? "writes" : "reads";
    if (use->site != NULL)
        return append(text, size, at, "%s %s atomically, %u bytes from byte %u, at %s:%u\n", does,
                      site_object(use->site), use->size, use->offset - start, site_file(use->site),
                      use->site->line);
    return append(text, size, at, "%s %u bytes from byte %u, %s\n", does, use->size, use->offset - start,
                  place->text);
}

/* The object of a race, and who does what to it. */
static size_t append_race(oppx *x, char *text, size_t size, size_t at) {
    const block *block = memory_block(x, x->second.offset);
    if (block == NULL) return at;
    const void *code[3] = {block->code};
    place places[3];
    int count = 1, first = 0, second = 0;
    if (x->first.code != NULL && x->first.kind != 0) code[first = count++] = x->first.code;
    if (x->second.code != NULL) code[second = count++] = x->second.code;
    find_places(code, places, count);
    char name[24];
    at = append(text, size, at, "\nThe object is %u bytes that %s allocated %s:\n", block->end - block->start,
                thread_name(block->start / REGION_BYTES, name, sizeof(name)), places[0].text);
    if (x->first.kind != 0) at = append_use(text, size, at, &x->first, block->start, &places[first]);
    return append_use(text, size, at, &x->second, block->start, &places[second]);
}

/* --- The timeline ---------------------------------------------------------------------------- */

size_t oppx_timeline(oppx *x, const oppx_target *target, oppx_finding *finding, char *text, size_t size) {
    x->records = calloc(RECORDS, sizeof(record));
    x->uses = calloc(USES, sizeof(use));
    x->record_count = 0;
    oppx_replay(x, target, finding);
    size_t at = append(text, size, 0, "step");
    for (uint32_t t = 1; t <= finding->program.threads; t++) at = append(text, size, at, "  T%u  ", t);
    at = append(text, size, at, "\n");
    uint32_t last = 0;
    for (uint32_t i = 0; x->records != NULL && i < x->record_count; i++) {
        const record *record = &x->records[i];
        /* setting up */
        if (record->thread == 0 && last == 0 && strncmp(record->text, "FAILS", 5) != 0) continue;
        if (record->thread != last)
            at = append(text, size, at, "%4u%*s%s %u\n", i, (int)(2 + record->thread * INDENT), "",
                        record->thread == 0 ? "judge" : "thread", record->thread);
        last = record->thread;
        at = append(text, size, at, "%4u%*s%s\n", i, (int)(3 + record->thread * INDENT), "", record->text);
    }
    if (finding->found && x->second.kind != 0) at = append_race(x, text, size, at);
    free(x->records);
    free(x->uses);
    x->records = NULL;
    x->uses = NULL;
    return at;
}
