/* The timeline: a column a thread, a line a step. */
#include "state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

size_t oppx_timeline(oppx *x, const oppx_target *target, oppx_finding *finding, char *text, size_t size) {
    x->records = calloc(RECORDS, sizeof(record));
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
    free(x->records);
    x->records = NULL;
    return at;
}
