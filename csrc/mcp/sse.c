#include "mcp/sse.h"

#include <limits.h>

enum line_state {
    AT_START, /* of the stream: a BOM may come */
    IN_NAME,  /* of a field, from the line's first byte */
    AT_VALUE, /* behind the colon: one space is skipped */
    IN_VALUE,
    IN_IGNORED, /* a comment, an unknown field, or a value that is void */
};

enum field_name {
    FIELD_OTHER,
    FIELD_DATA,
    FIELD_EVENT,
    FIELD_ID,
    FIELD_RETRY,
};

static const struct {
    const char *name;
    enum field_name field;
} fields[] = {
    {"data", FIELD_DATA},
    {"event", FIELD_EVENT},
    {"id", FIELD_ID},
    {"retry", FIELD_RETRY},
};

static const unsigned char bom[] = {0xef, 0xbb, 0xbf};

void
ro_sse_init(ro_sse *sse, size_t max_data, size_t max_field,
            ro_sse_event_fn event, void *arg)
{
    static const ro_sse fresh;
    *sse = fresh;
    ro_buf_init(&sse->data, max_data);
    ro_buf_init(&sse->type, max_field);
    ro_buf_init(&sse->id, max_field);
    ro_buf_init(&sse->block_id, max_field);
    ro_buf_init(&sse->line_id, max_field);
    sse->event = event;
    sse->arg = arg;
    sse->state = AT_START;
    sse->retry_ms = -1;
}

void
ro_sse_free(ro_sse *sse)
{
    ro_buf_free(&sse->data);
    ro_buf_free(&sse->type);
    ro_buf_free(&sse->id);
    ro_buf_free(&sse->block_id);
    ro_buf_free(&sse->line_id);
}

static void
append(ro_sse *sse, ro_buf *buf, const char *bytes, size_t len)
{
    switch (ro_buf_append(buf, bytes, len)) {
    case RO_BUF_OK:
        break;
    case RO_BUF_TOO_LARGE:
        sse->code = RO_SSE_TOO_LARGE;
        break;
    case RO_BUF_NO_MEMORY:
        sse->code = RO_SSE_NO_MEMORY;
        break;
    }
}

/* ---- fields ---- */

static void
begin_field(ro_sse *sse)
{
    ro_slice name = {sse->name, sse->n_name};
    sse->field = FIELD_OTHER;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (ro_slice_equal(name, ro_slice_str(fields[i].name))) {
            sse->field = (int)fields[i].field;
        }
    }
    sse->bad_value = false;
    switch (sse->field) {
    case FIELD_DATA:
        if (sse->has_data) {
            append(sse, &sse->data, "\n", 1);
        }
        sse->has_data = true;
        break;
    case FIELD_EVENT:
        ro_buf_clear(&sse->type);
        break;
    case FIELD_ID:
        ro_buf_clear(&sse->line_id);
        break;
    default:
        sse->has_digits = false;
        sse->value_ms = 0;
        break;
    }
}

static void
read_digits(ro_sse *sse, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] < '0' || bytes[i] > '9') {
            sse->bad_value = true;
            sse->state = IN_IGNORED;
            return;
        }
        int digit = bytes[i] - '0';
        sse->has_digits = true;
        if (sse->value_ms > (INT_MAX - digit) / 10) {
            sse->value_ms = INT_MAX;
        }
        else {
            sse->value_ms = sse->value_ms * 10 + digit;
        }
    }
}

/* What stands before a NUL counts for the cap, so that the outcome does not
 * depend on how the line was split. */
static void
read_id(ro_sse *sse, const char *bytes, size_t len)
{
    const char *nul = memchr(bytes, '\0', len);
    append(sse, &sse->line_id, bytes,
           nul != NULL ? (size_t)(nul - bytes) : len);
    if (nul != NULL) {
        sse->bad_value = true;
        sse->state = IN_IGNORED;
    }
}

static void
read_value(ro_sse *sse, const char *bytes, size_t len)
{
    switch (sse->field) {
    case FIELD_DATA:
        append(sse, &sse->data, bytes, len);
        break;
    case FIELD_EVENT:
        append(sse, &sse->type, bytes, len);
        break;
    case FIELD_ID:
        read_id(sse, bytes, len);
        break;
    case FIELD_RETRY:
        read_digits(sse, bytes, len);
        break;
    default:
        sse->state = IN_IGNORED;
        break;
    }
}

static void
swap(ro_buf *a, ro_buf *b)
{
    ro_buf old = *a;
    *a = *b;
    *b = old;
}

static void
end_field(ro_sse *sse)
{
    /* An id counts only once it is known to be whole and without a NUL, and it
     * becomes the stream's with its block. So it is read in line_id, waits in
     * block_id and ends in id; swapping keeps the memory of all three. */
    if (sse->field == FIELD_ID && !sse->bad_value) {
        swap(&sse->block_id, &sse->line_id);
        sse->has_id = true;
    }
    else if (sse->field == FIELD_RETRY && !sse->bad_value && sse->has_digits) {
        sse->retry_ms = sse->value_ms;
    }
    sse->field = FIELD_OTHER;
}

/* ---- lines ---- */

static void
end_block(ro_sse *sse)
{
    ro_slice type = ro_buf_slice(&sse->type);
    if (sse->has_id) {
        swap(&sse->id, &sse->block_id);
    }
    /* Without data it is no event for a browser. A resumption needs the id and
     * the retry time all the same. */
    if (sse->has_data || sse->has_id || sse->retry_ms >= 0) {
        const ro_sse_event event = {
            .type = type.len > 0 ? type : ro_slice_str("message"),
            .data = ro_buf_slice(&sse->data),
            .has_data = sse->has_data,
            .has_id = sse->has_id,
            .last_id = ro_buf_slice(&sse->id),
            .retry_ms = sse->retry_ms,
        };
        if (!sse->event(sse->arg, &event)) {
            sse->code = RO_SSE_STOPPED;
        }
    }
    ro_buf_clear(&sse->data);
    ro_buf_clear(&sse->type);
    sse->has_data = false;
    sse->has_id = false;
    sse->retry_ms = -1;
}

static void
end_line(ro_sse *sse)
{
    if (sse->state == IN_NAME && sse->n_name == 0) {
        end_block(sse);
    }
    else {
        if (sse->state == IN_NAME) {
            begin_field(sse); /* a name without a colon: an empty value */
        }
        end_field(sse);
    }
    sse->state = IN_NAME;
    sse->n_name = 0;
}

/* Bytes before the line's end. Stops at either kind of end in one pass: a
 * search for one kind alone looks at a chunk of the other again and again. */
static size_t
line_rest(const char *bytes, size_t len)
{
    size_t rest = 0;
    while (rest < len && bytes[rest] != '\n' && bytes[rest] != '\r') {
        rest++;
    }
    return rest;
}

/* name holds one byte more than the longest known name: a field that fills
 * it is unknown. */
static void
read_name(ro_sse *sse, char c)
{
    if (c == ':') {
        if (sse->n_name == 0) {
            sse->field = FIELD_OTHER;
            sse->state = IN_IGNORED;
            return;
        }
        begin_field(sse);
        sse->state = sse->field == FIELD_OTHER ? IN_IGNORED : AT_VALUE;
        return;
    }
    sse->name[sse->n_name++] = c;
    if (sse->n_name == sizeof(sse->name)) {
        sse->field = FIELD_OTHER;
        sse->state = IN_IGNORED;
    }
}

/* The start of the stream; true when the byte is part of the BOM. Bytes that
 * only looked like one are the beginning of a name. */
static bool
read_bom(ro_sse *sse, char c)
{
    if ((unsigned char)c == bom[sse->n_bom]) {
        sse->n_bom++;
        if (sse->n_bom == sizeof(bom)) {
            sse->state = IN_NAME;
        }
        return true;
    }
    sse->state = IN_NAME;
    for (unsigned i = 0; i < sse->n_bom && i < sizeof(bom); i++) {
        read_name(sse, (char)bom[i]);
    }
    return false;
}

/* Bytes eaten, at least one. */
static size_t
step(ro_sse *sse, const char *bytes, size_t len)
{
    char c = bytes[0];
    if (sse->state == AT_START && read_bom(sse, c)) {
        return 1;
    }
    if (c == '\r' || c == '\n') {
        /* The LF of a CRLF may come in another chunk than its CR. */
        bool skip = c == '\n' && sse->after_cr;
        sse->after_cr = c == '\r';
        if (!skip) {
            end_line(sse);
        }
        return 1;
    }
    sse->after_cr = false;
    if (sse->state == IN_NAME) {
        read_name(sse, c);
        return 1;
    }
    if (sse->state == AT_VALUE) {
        sse->state = IN_VALUE;
        if (c == ' ') {
            return 1;
        }
    }
    size_t rest = line_rest(bytes, len);
    if (sse->state == IN_VALUE) {
        read_value(sse, bytes, rest);
    }
    return rest;
}

ro_sse_code
ro_sse_feed(ro_sse *sse, const char *bytes, size_t len)
{
    while (len > 0 && sse->code == RO_SSE_OK) {
        size_t eaten = step(sse, bytes, len);
        bytes += eaten;
        len -= eaten;
    }
    return sse->code;
}
