/* sources: core/buf.c
 * options: --unwind 7 --unwindset strlen.0:9 --object-bits 10
 *
 * An event stream of any length keeps no byte beyond its caps, and says
 * nothing once it has stopped. By induction: whatever the parser has read, if
 * it is in order, it is in order behind one more byte, and behind two in one
 * chunk. */
#include "prove.h"

#include "mcp/sse.c"

#define CAP 2
#define CHUNK 2

/* A buffer asks for its cap, once. */
void *
ro_realloc(void *old, size_t size)
{
    CLAIM(old == NULL && size == CAP);
    void *block = malloc(CAP);
    ASSUME(block != NULL);
    return block;
}

void
ro_free(void *block)
{
    free(block);
}

/* CBMC has none. */
void *
memchr(const void *bytes, int c, size_t len)
{
    const char *text = bytes;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == (char)c) {
            return (void *)(uintptr_t)(text + i);
        }
    }
    return NULL;
}

static bool stopped;

static bool
on_event(void *arg, const ro_sse_event *event)
{
    (void)arg;
    CLAIM(!stopped);
    CLAIM(event->data.len <= CAP && event->last_id.len <= CAP);
    CLAIM(event->type.len <= CAP || event->type.len == strlen("message"));
    CLAIM(event->has_data || event->data.len == 0);
    CLAIM(event->retry_ms >= -1 && !IS_TWIN);
    return nondet_bool();
}

/* A buffer of CAP bytes at most, with any content. */
static ro_buf
any_buf(void)
{
    ro_buf buf = {.max = CAP};
    if (nondet_bool()) {
        buf.data = any_bytes(CAP);
        buf.cap = CAP;
        buf.len = any_size(CAP);
    }
    return buf;
}

static bool
is_bounded(const ro_buf *buf)
{
    return buf->max == CAP && buf->len <= buf->cap && buf->cap <= CAP;
}

static bool
is_in_order(const ro_sse *sse)
{
    return is_bounded(&sse->data) && is_bounded(&sse->type)
           && is_bounded(&sse->id) && is_bounded(&sse->block_id)
           && is_bounded(&sse->line_id) && sse->state >= AT_START
           && sse->state <= IN_IGNORED && sse->field >= FIELD_OTHER
           && sse->field <= FIELD_RETRY
           && (sse->n_name < sizeof(sse->name) || sse->state == IN_IGNORED)
           && (sse->n_bom < sizeof(bom) || sse->state != AT_START)
           && (sse->n_name == 0 || sse->state != AT_START)
           && (sse->state > IN_NAME || sse->field == FIELD_OTHER)
           && (sse->has_data || sse->field != FIELD_DATA)
           && (sse->has_data || sse->data.len == 0) && sse->value_ms >= 0
           && sse->retry_ms >= -1;
}

static void
prove_chunk(size_t len)
{
    char *text = any_bytes(len);
    ro_sse sse = {
        .data = any_buf(),
        .type = any_buf(),
        .id = any_buf(),
        .block_id = any_buf(),
        .line_id = any_buf(),
        .event = on_event,
        .code = (ro_sse_code)any_size(RO_SSE_NO_MEMORY),
        .state = (int)any_size(IN_IGNORED),
        .field = (int)any_size(FIELD_RETRY),
        .n_name = nondet_unsigned(),
        .n_bom = nondet_unsigned(),
        .after_cr = nondet_bool(),
        .has_data = nondet_bool(),
        .has_id = nondet_bool(),
        .bad_value = nondet_bool(),
        .has_digits = nondet_bool(),
        .value_ms = (int)nondet_unsigned(),
        .retry_ms = (int)nondet_unsigned(),
    };
    for (size_t i = 0; i < sizeof(sse.name); i++) {
        sse.name[i] = nondet_char();
    }
    ASSUME(is_in_order(&sse));
    stopped = sse.code != RO_SSE_OK;
    ro_sse_code before = sse.code;

    ro_sse_code code = ro_sse_feed(&sse, text, len);

    CLAIM(!stopped || code == before);
    CLAIM(is_in_order(&sse));
}

void
prove(void)
{
    ro_sse fresh;

    ro_sse_init(&fresh, CAP, CAP, on_event, NULL);
    CLAIM(is_in_order(&fresh));
    prove_chunk(1);
    prove_chunk(CHUNK);
}
