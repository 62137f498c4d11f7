/* Findings as text, to be kept and replayed. */
#include "state.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

oppx_finding *oppx_finding_create(void) {
    return calloc(1, sizeof(oppx_finding));
}

void oppx_finding_destroy(oppx_finding *finding) {
    free(finding);
}

bool oppx_finding_found(const oppx_finding *finding) {
    return finding->found;
}

const char *oppx_finding_message(const oppx_finding *finding) {
    return finding->message;
}

uint32_t oppx_finding_misfit(const oppx_finding *finding) {
    return finding->misfit;
}

size_t oppx_finding_print(const oppx_target *target, const oppx_finding *finding, char *text, size_t size) {
    size_t at = 0;
#define PUT(...) at += (size_t)snprintf(at < size ? text + at : NULL, at < size ? size - at : 0, __VA_ARGS__)
    PUT("# %s\ntarget: %s\nprogram: ", finding->message, target->name);
    at += oppx_program_print(target, &finding->program, at < size ? text + at : text,
                             at < size ? size - at : 0);
    const oppx_bounds *bounds = &finding->bounds;
    PUT("\nbounds: %u %u %u %u %u", bounds->preemptions, bounds->stale, bounds->stalls, bounds->early,
        bounds->refusals);
    if (finding->foretold.load != 0)
        PUT("\nforetold: %u %u", finding->foretold.load, finding->foretold.store);
    PUT("\nchoices:");
    for (uint32_t i = 0; i < finding->choice_count; i++) {
        /* Runs of the default as one number with a sign. */
        uint32_t zeros = 0;
        while (i + zeros < finding->choice_count && finding->choice[i + zeros] == 0) zeros++;
        if (zeros > 1) {
            PUT(" -%u", zeros);
            i += zeros - 1;
        } else {
            PUT(" %u", finding->choice[i]);
        }
    }
    PUT("\n");
#undef PUT
    return at;
}

/* The value of the line that begins with `name` and a colon, up to its end. NULL if there is none. */
static const char *line_named(const char *text, const char *name, size_t *length) {
    size_t name_length = strlen(name);
    for (const char *line = text; *line != 0;) {
        size_t whole = strcspn(line, "\n");
        if (strncmp(line, name, name_length) == 0 && line[name_length] == ':') {
            const char *value = line + name_length + 1;
            while (*value == ' ') value++;
            *length = (size_t)(line + whole - value);
            return value;
        }
        line += whole;
        if (*line == '\n') line++;
    }
    return NULL;
}

int oppx_finding_target(const char *text, char *name, size_t size) {
    size_t length;
    const char *value = line_named(text, "target", &length);
    if (value == NULL || length >= size) return -EINVAL;
    memcpy(name, value, length);
    while (length > 0 && isspace((unsigned char)name[length - 1])) length--;
    name[length] = 0;
    return 0;
}

int oppx_finding_parse(const oppx_target *target, const char *text, oppx_finding *finding, char *error) {
    memset(finding, 0, sizeof(*finding));
    size_t length;
    const char *value = line_named(text, "program", &length);
    char *program = value == NULL ? NULL : strndup(value, length);
    if (program == NULL) {
        snprintf(error, OPPX_TEXT, "there is no line 'program: …'");
        return -EINVAL;
    }
    int result = oppx_program_parse(target, program, &finding->program, error);
    free(program);
    if (result != 0) return result;
    unsigned preemptions, stale, stalls, early = 0, refusals = 0; /* the last two are not in older ones */
    value = line_named(text, "bounds", &length);
    if (value == NULL ||
        sscanf(value, "%u %u %u %u %u", &preemptions, &stale, &stalls, &early, &refusals) < 3 ||
        preemptions > 255 || stale > 255 || stalls > 255 || early > 255 || refusals > 255) {
        snprintf(error, OPPX_TEXT, "there is no line 'bounds: ' with three to five numbers from 0 to 255");
        return -EINVAL;
    }
    finding->bounds = (oppx_bounds){(uint8_t)preemptions, (uint8_t)stale, (uint8_t)stalls, (uint8_t)early,
        (uint8_t)refusals};
    value = line_named(text, "foretold", &length);
    oppx_foretold *foretold = &finding->foretold;
    if (value != NULL &&
        (sscanf(value, "%u %u", &foretold->load, &foretold->store) != 2 || foretold->load == 0)) {
        snprintf(error, OPPX_TEXT,
                 "in the line 'foretold: ' stand the steps of a load and of a store, from 1");
        return -EINVAL;
    }
    value = line_named(text, "choices", &length);
    for (const char *at = value, *last = value == NULL ? NULL : value + length; at != NULL && at < last;) {
        char *end;
        long number = strtol(at, &end, 10);
        if (end > last) break; /* the number of another line: only blanks were left in this one */
        if (end == at) {
            if (strspn(at, " \t\r") >= (size_t)(last - at)) break;
            snprintf(error, OPPX_TEXT, "a choice is a number, not '%.*s'",
                     last - at < 40 ? (int)(last - at) : 40, at);
            return -EINVAL;
        }
        if (number > 255 || number < -OPPX_CHOICES ||
            (number < 0 ? (uint32_t)-number : 1) > OPPX_CHOICES - finding->choice_count) {
            snprintf(error, OPPX_TEXT, "a choice is above 255, or there are more than %u", OPPX_CHOICES);
            return -EINVAL;
        }
        uint32_t times = number < 0 ? (uint32_t)-number : 1;
        for (; times > 0; times--)
            finding->choice[finding->choice_count++] = number < 0 ? 0 : (uint8_t)number;
        at = end;
    }
    return 0;
}
