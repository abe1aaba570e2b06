/* Input: secrets separated by '|', a line break, a JSON value. What is no
 * JSON value is taken as the text of a string.
 *
 * The result must be strict JSON with the same tokens, and no string of it
 * may hold a secret.
 */
#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "core/redact.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_SECRETS 8

static const ro_json_limits strict = {
    .max_bytes = SIZE_MAX,
    .max_depth = RO_MAX_DEPTH,
};

static void
require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static ro_slice
take_secrets(ro_slice input, ro_slice *secrets, size_t *count)
{
    const char *ptr = input.ptr;
    const char *end = ptr + input.len;
    *count = 0;
    while (ptr < end && *count < MAX_SECRETS) {
        size_t len = 0;
        while (ptr + len < end && ptr[len] != '|' && ptr[len] != '\n') {
            len++;
        }
        secrets[(*count)++] = ro_slice_of(ptr, len);
        ptr += len;
        if (ptr < end && *ptr++ == '\n') {
            break;
        }
    }
    return ro_slice_of(ptr, (size_t)(end - ptr));
}

/* The value itself, or a string of it. */
static void
write_value(ro_slice text, ro_buf *value)
{
    if (ro_json_validate(text, &strict, NULL) == RO_JSON_OK) {
        require(ro_buf_append_slice(value, text) == RO_BUF_OK);
        return;
    }
    require(ro_buf_append_char(value, '"') == RO_BUF_OK);
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        char escape[8];
        if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') {
            require(ro_buf_append_char(value, (char)c) == RO_BUF_OK);
            continue;
        }
        snprintf(escape, sizeof(escape), "\\u%04x", c);
        require(ro_buf_append(value, escape, 6) == RO_BUF_OK);
    }
    require(ro_buf_append_char(value, '"') == RO_BUF_OK);
}

static size_t
string_end(ro_slice json, size_t at)
{
    for (at++; json.ptr[at] != '"'; at++) {
        at += json.ptr[at] == '\\';
    }
    return at + 1;
}

static void
require_none(ro_slice raw, const ro_slice *secrets, size_t count)
{
    char *text = malloc(raw.len);
    size_t len;

    require(text != NULL);
    len = ro_json_decode(raw, text);
    for (size_t i = 0; i < count; i++) {
        ro_slice s = secrets[i];
        if (s.len < RO_MIN_SECRET || memchr(s.ptr, '<', s.len) != NULL
            || memchr(s.ptr, '>', s.len) != NULL
            || memmem(RO_REDACTED, sizeof(RO_REDACTED) - 1, s.ptr, s.len)
                   != NULL) {
            continue; /* the marker may be part of it */
        }
        require(memmem(text, len, s.ptr, s.len) == NULL);
    }
    free(text);
}

/* Outside of strings every byte is the same. */
static void
compare(ro_slice in, ro_slice out, const ro_slice *secrets, size_t count)
{
    size_t at = 0;
    size_t to = 0;
    while (at < in.len) {
        require(to < out.len && in.ptr[at] == out.ptr[to]);
        if (in.ptr[at] == '"') {
            size_t end = string_end(out, to);
            require_none(ro_slice_of(out.ptr + to, end - to), secrets, count);
            at = string_end(in, at);
            to = end;
        }
        else {
            at++;
            to++;
        }
    }
    require(to == out.len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const ro_secrets_limits limits = {
        .min_len = RO_MIN_SECRET,
        .max_len = RO_MAX_SECRET,
        .max_count = MAX_SECRETS,
    };
    ro_slice secrets[MAX_SECRETS];
    size_t count;
    ro_slice text
        = take_secrets(ro_slice_of((const char *)data, size), secrets, &count);
    ro_secrets *compiled = NULL;
    ro_buf in;
    ro_buf out;

    require(ro_secrets_new(secrets, count, &limits, &compiled)
            == RO_SECRETS_OK);
    ro_buf_init(&in, SIZE_MAX);
    ro_buf_init(&out, SIZE_MAX);
    write_value(text, &in);
    for (unsigned shapes = 0; shapes < 2; shapes++) {
        ro_redact_rules rules = {
            .secrets = compiled,
            .shapes = shapes != 0,
            .attested = shapes ? ro_redact_attestation : NULL,
        };
        ro_redact_code code = ro_redact(ro_buf_slice(&in), &rules, &out);
        if (code == RO_REDACT_OK) {
            require(ro_json_validate(ro_buf_slice(&out), &strict, NULL)
                    == RO_JSON_OK);
            compare(ro_buf_slice(&in), ro_buf_slice(&out), secrets, count);
        }
        else {
            require(code == RO_REDACT_KEYS_COLLIDE && out.len == 0);
        }
        ro_buf_clear(&out);
    }
    ro_buf_free(&in);
    ro_buf_free(&out);
    ro_secrets_free(compiled);
    return 0;
}
