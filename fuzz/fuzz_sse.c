/* One stream whole and in splits taken from its first bytes: the same blocks
 * must come out, within the caps. */
#include <stdint.h>
#include <stdlib.h>

#include "mcp/sse.h"

#define MAX_DATA 64u
#define MAX_FIELD 16u

typedef struct digest {
    uint64_t hash;
    size_t blocks;
} digest;

static void
mix(digest *to, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < len; i++) {
        to->hash = (to->hash ^ p[i]) * UINT64_C(0x100000001b3);
    }
    to->hash = (to->hash ^ len) * UINT64_C(0x100000001b3);
}

static bool
on_event(void *arg, const ro_sse_event *event)
{
    digest *to = arg;
    if (event->data.len > MAX_DATA || event->type.len > MAX_FIELD
        || event->last_id.len > MAX_FIELD || event->retry_ms < -1
        || (!event->has_data && event->data.len > 0)
        || (!event->has_data && !event->has_id && event->retry_ms < 0)) {
        abort();
    }
    mix(to, event->type.ptr, event->type.len);
    mix(to, event->data.ptr, event->data.len);
    mix(to, event->last_id.ptr, event->last_id.len);
    mix(to, &event->has_id, sizeof(event->has_id));
    mix(to, &event->retry_ms, sizeof(event->retry_ms));
    to->blocks++;
    return to->blocks < 40;
}

static ro_sse_code
run(const uint8_t *data, size_t size, size_t chunk, digest *to)
{
    ro_sse sse;
    ro_sse_code code = RO_SSE_OK;
    ro_sse_init(&sse, MAX_DATA, MAX_FIELD, on_event, to);
    for (size_t at = 0; at < size; at += chunk) {
        size_t len = size - at < chunk ? size - at : chunk;
        code = ro_sse_feed(&sse, (const char *)data + at, len);
    }
    ro_slice id = ro_buf_slice(&sse.id);
    mix(to, id.ptr, id.len);
    ro_sse_free(&sse);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    digest whole = {0, 0};
    if (size == 0) {
        return 0;
    }
    ro_sse_code code = run(data, size, size, &whole);
    const size_t chunks[] = {1, 2, 3, 1u + data[0] % 32u};
    for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
        digest split = {0, 0};
        if (run(data, size, chunks[i], &split) != code
            || split.hash != whole.hash || split.blocks != whole.blocks) {
            abort();
        }
    }
    return 0;
}
