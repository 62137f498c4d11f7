/* The lines of JSON that the host and a program exchange: flat objects, as the protocol has them. */
#ifndef OPPCLIENT_LINE_H
#define OPPCLIENT_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a line may say; strings are empty and numbers 0 where it does not. Texts are cut at whole characters.
 */
struct oppclient_line {
    bool ok;
    uint64_t id;
    uint64_t grace_ns;
    int64_t task;
    int64_t socket;
    uint64_t bytes;
    int64_t number;
    int64_t at_ms;
    char event[64];
    char launch[32];
    char name[256];
    char error[512];
    char reason[256];
    char file[1024];
    char kind[128];
    char origin[32];
    char payload[3072];
};

/*
 * False where it is no object of strings, numbers, true, false and null. Keys that are not known are left
 * out.
 */
bool oppclient_line_read(const char *text, size_t length, struct oppclient_line *line);

/*
 * The text of a key in an object of texts, as line_read reads it, cut to `size`.
 * Returns -ENOENT where it has none of that key, -EINVAL where it is no object of texts.
 */
int oppclient_line_value(const char *text, const char *key, char *out, size_t size);

/*
 * Writes a string of JSON, with its quotes and a null byte.
 * Returns its length; -EILSEQ where it is no UTF-8, -EINVAL where it has more than `most` characters, or does
 * not fit.
 */
int oppclient_line_quote(const char *text, size_t most, char *out, size_t size);

#endif
