/* Programs as text: operations between semicolons, threads between bars. */
#include "state.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *skip(const char *text) {
    while (isspace((unsigned char)*text)) text++;
    return text;
}

static int complain(char *error, const char *what, const char *at) {
    snprintf(error, OPPX_TEXT, "%s at '%.40s'", what, *at == 0 ? "the end" : at);
    return -EINVAL;
}

int oppx_program_parse(const oppx_target *target, const char *text, oppx_program *program, char *error) {
    memset(program, 0, sizeof(*program));
    program->threads = 1;
    const char *at = skip(text);
    while (*at != 0) {
        uint32_t thread = program->threads - 1;
        if (*at == ';') {
            at = skip(at + 1);
            continue;
        }
        if (*at == '|') {
            if (program->threads == OPPX_THREADS - 1) return complain(error, "too many threads", at);
            program->threads++;
            at = skip(at + 1);
            continue;
        }
        size_t length = strcspn(at, " \t\n;|");
        uint32_t kind = 0;
        while (kind < target->kind_count &&
               (strlen(target->kinds[kind].name) != length ||
                strncmp(target->kinds[kind].name, at, length) != 0))
            kind++;
        if (kind == target->kind_count) return complain(error, "no such operation", at);
        if (program->count[thread] == OPPX_OPERATIONS) return complain(error, "too many operations", at);
        oppx_operation *operation = &program->operation[thread][program->count[thread]++];
        operation->kind = (uint8_t)kind;
        at = skip(at + length);
        for (int a = 0; a < target->kinds[kind].arguments; a++) {
            if (!isdigit((unsigned char)*at)) return complain(error, "a number is expected", at);
            char *end;
            unsigned long value = strtoul(at, &end, 10);
            if (value >= target->kinds[kind].limit[a]) return complain(error, "the number is too large", at);
            operation->argument[a] = (uint8_t)value;
            at = skip(end);
        }
        if (*at != 0 && *at != ';' && *at != '|') return complain(error, "';' or '|' is expected", at);
    }
    return 0;
}

size_t oppx_program_print(const oppx_target *target, const oppx_program *program, char *text, size_t size) {
    size_t at = 0;
#define PUT(...) at += (size_t)snprintf(at < size ? text + at : NULL, at < size ? size - at : 0, __VA_ARGS__)
    if (size > 0) text[0] = 0;
    for (uint32_t t = 0; t < program->threads; t++) {
        if (t > 0) PUT(" | ");
        for (uint32_t i = 0; i < program->count[t]; i++) {
            const oppx_operation *operation = &program->operation[t][i];
            const oppx_kind *kind = &target->kinds[operation->kind];
            PUT("%s%s", i > 0 ? "; " : "", kind->name);
            for (int a = 0; a < kind->arguments; a++) PUT(" %u", operation->argument[a]);
        }
    }
#undef PUT
    return at;
}
