#include "line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is left of a line. */
struct reader {
    const char *at;
    const char *end;
};

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\r'))
        reader->at++;
}

static bool take(struct reader *reader, char wanted)
{
    skip_space(reader);
    if (reader->at == reader->end || *reader->at != wanted)
        return false;
    reader->at++;
    return true;
}

/* Of four digits; -1: there are none. */
static int32_t hex(struct reader *reader)
{
    int32_t value = 0;
    if (reader->end - reader->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = *reader->at++;
        char lower = (char)(c | 32);
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if (lower >= 'a' && lower <= 'f')
            value = value * 16 + (lower - 'a' + 10);
        else
            return -1;
    }
    return value;
}

static size_t encode(int32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* How many bytes the character at the begin of a text has; 0: there is none. */
static size_t character(const char *text, const char *end)
{
    unsigned char first = (unsigned char)*text;
    size_t length =
        first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (length == 0 || (size_t)(end - text) < length)
        return 0;
    for (size_t i = 1; i < length; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return 0;
    /* Too long for what it says, halves of pairs, beyond the last: no characters. */
    unsigned char second = length > 2 ? (unsigned char)text[1] : 0;
    bool is_none = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)
        || (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
    return is_none ? 0 : length;
}

/* One character, or an escape. Returns its bytes in `out`; 0: there is none. */
static size_t take_character(struct reader *reader, char out[4])
{
    unsigned char first = (unsigned char)*reader->at;
    if (first != '\\') {
        size_t length = character(reader->at, reader->end);
        if (first < 0x20 || length == 0)
            return 0;
        memcpy(out, reader->at, length);
        reader->at += length;
        return length;
    }
    if (reader->end - reader->at < 2)
        return 0;
    char kind = reader->at[1];
    reader->at += 2;
    const char *from = "\"\\/bfnrt";
    const char *to = "\"\\/\b\f\n\r\t";
    const char *found = kind == 0 ? NULL : strchr(from, kind);
    if (found != NULL) {
        out[0] = to[found - from];
        return 1;
    }
    if (kind != 'u')
        return 0;
    int32_t code = hex(reader);
    if (code >= 0xd800 && code < 0xdc00 && reader->end - reader->at >= 6 && reader->at[0] == '\\'
        && reader->at[1] == 'u') {
        reader->at += 2;
        int32_t low = hex(reader);
        if (low < 0xdc00 || low > 0xdfff)
            return 0;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    /* A null byte would cut the text off; half a character is none. */
    if (code <= 0 || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    return encode(code, out);
}

static bool take_string(struct reader *reader, char *out, size_t size)
{
    size_t used = 0;
    bool is_full = false;
    if (!take(reader, '"'))
        return false;
    while (reader->at < reader->end && *reader->at != '"') {
        char bytes[4];
        size_t count = take_character(reader, bytes);
        if (count == 0)
            return false;
        is_full = is_full || used + count >= size;
        if (is_full)
            continue;
        memcpy(out + used, bytes, count);
        used += count;
    }
    if (reader->at == reader->end)
        return false;
    reader->at++;
    out[used] = 0;
    return true;
}

/* A number, true, false or null, as text. */
static bool take_word(struct reader *reader, char *out, size_t size)
{
    size_t used = 0;
    skip_space(reader);
    const char *allowed = "+-.0123456789aefnlrstuE";
    while (reader->at < reader->end && *reader->at != 0 && strchr(allowed, *reader->at) != NULL) {
        if (used + 1 >= size)
            return false;
        out[used++] = *reader->at++;
    }
    out[used] = 0;
    return used > 0;
}

/* Up to a year; of what a number says beyond that nothing depends. */
static uint64_t nanoseconds(double seconds)
{
    return seconds > 0 && seconds < 3.2e7 ? (uint64_t)(seconds * 1e9) : 0;
}

#define TEXT(key) \
    {#key, offsetof(struct oppclient_line, key), sizeof ((struct oppclient_line *)NULL)->key, false}
#define COUNT(key) {#key, offsetof(struct oppclient_line, key), 0, true}
#define NUMBER(key) {#key, offsetof(struct oppclient_line, key), 0, false}

static const struct member {
    const char *key;
    size_t place;
    size_t size;   /* of a text; else 0 */
    bool is_count; /* has no sign */
} members[] = {
    TEXT(event), TEXT(launch), TEXT(name), TEXT(error), TEXT(reason), TEXT(file), TEXT(kind), TEXT(origin),
    TEXT(payload), COUNT(id), COUNT(bytes), NUMBER(task), NUMBER(socket), NUMBER(number), NUMBER(at_ms),
};

static bool take_member(struct reader *reader, struct oppclient_line *line)
{
    char key[32];
    char other[512];
    if (!take_string(reader, key, sizeof key) || !take(reader, ':'))
        return false;
    skip_space(reader);
    bool is_text = reader->at < reader->end && *reader->at == '"';
    const struct member *member = members, *end = members + sizeof members / sizeof *members;
    while (member < end && (strcmp(key, member->key) != 0 || is_text != (member->size > 0)))
        member++;
    char *place = member < end ? (char *)line + member->place : NULL;
    if (is_text && place != NULL)
        return take_string(reader, place, member->size);
    if (is_text)
        return take_string(reader, other, sizeof other);
    if (!take_word(reader, other, sizeof other))
        return false;
    if (strcmp(key, "ok") == 0)
        line->ok = strcmp(other, "true") == 0;
    else if (strcmp(key, "grace_s") == 0)
        line->grace_ns = nanoseconds(strtod(other, NULL));
    else if (place != NULL) {
        uint64_t number = member->is_count ? strtoull(other, NULL, 10) : (uint64_t)strtoll(other, NULL, 10);
        memcpy(place, &number, sizeof number);
    }
    return true;
}

bool oppclient_line_read(const char *text, size_t length, struct oppclient_line *line)
{
    struct reader reader = {.at = text, .end = text + length};
    memset(line, 0, sizeof *line);
    if (!take(&reader, '{'))
        return false;
    if (!take(&reader, '}')) {
        do {
            if (!take_member(&reader, line))
                return false;
        } while (take(&reader, ','));
        if (!take(&reader, '}'))
            return false;
    }
    skip_space(&reader);
    return reader.at == reader.end;
}

int oppclient_line_value(const char *text, const char *key, char *out, size_t size)
{
    struct reader reader = {.at = text, .end = text + strlen(text)};
    char found[256];
    char other[8];
    bool has_found = false;
    if (size == 0 || !take(&reader, '{'))
        return -EINVAL;
    if (take(&reader, '}'))
        return -ENOENT;
    do {
        skip_space(&reader);
        if (!take_string(&reader, found, sizeof found) || !take(&reader, ':'))
            return -EINVAL;
        skip_space(&reader);
        bool is_it = strcmp(found, key) == 0;
        has_found = has_found || is_it;
        if (!(is_it ? take_string(&reader, out, size) : take_string(&reader, other, sizeof other)))
            return -EINVAL;
    } while (take(&reader, ','));
    return !take(&reader, '}') ? -EINVAL : has_found ? 0 : -ENOENT;
}

int oppclient_line_quote(const char *text, size_t most, char *out, size_t size)
{
    const char *end = text + strlen(text);
    size_t used = 0;
    size_t characters = 0;
    if (size < 3)
        return -EINVAL;
    out[used++] = '"';
    while (text < end) {
        unsigned char first = (unsigned char)*text;
        size_t length = character(text, end);
        if (length == 0)
            return -EILSEQ;
        if (++characters > most || used + 8 > size)
            return -EINVAL;
        if (first == '"' || first == '\\') {
            out[used++] = '\\';
            out[used++] = *text;
        } else if (first < 0x20) {
            used += (size_t)sprintf(out + used, "\\u%04x", first);
        } else {
            memcpy(out + used, text, length);
            used += length;
        }
        text += length;
    }
    out[used++] = '"';
    out[used] = 0;
    return (int)used;
}
