/* The event-stream parser, whole and in every split. */
#include "check.h"

#include <limits.h>

#include "core/alloc.h"
#include "mcp/sse.h"

/* Reported blocks, written as "type|data|id|retry;" with ! before a block
 * without data, and the id only when the block had one. */
typedef struct log {
    char text[512];
    size_t len;
    size_t count;
    size_t stop_at; /* 0 never */
} log;

static void
put(log *to, const char *bytes, size_t len)
{
    CHECK(to->len + len < sizeof(to->text));
    if (len > 0) {
        memcpy(to->text + to->len, bytes, len);
        to->len += len;
    }
    to->text[to->len] = '\0';
}

static bool
record(void *arg, const ro_sse_event *event)
{
    log *to = arg;
    char retry[24] = "";
    if (!event->has_data) {
        CHECK(event->data.len == 0);
        put(to, "!", 1);
    }
    put(to, event->type.ptr, event->type.len);
    put(to, "|", 1);
    put(to, event->data.ptr, event->data.len);
    put(to, "|", 1);
    if (event->has_id) {
        put(to, "#", 1);
        put(to, event->last_id.ptr, event->last_id.len);
    }
    put(to, "|", 1);
    if (event->retry_ms >= 0) {
        (void)snprintf(retry, sizeof(retry), "%d", event->retry_ms);
    }
    put(to, retry, strlen(retry));
    put(to, ";", 1);
    to->count++;
    return to->count != to->stop_at;
}

static const struct {
    const char *stream;
    const char *want;
} cases[] = {
    {"", ""},
    {"\n\n\n", ""},
    {"data: a\n\n", "message|a||;"},
    {"data:a\n\n", "message|a||;"},
    {"data:  a \n\n", "message| a ||;"},
    {"data: a\r\r", "message|a||;"},
    {"data: a\r\n\r\n", "message|a||;"},
    {"data: a\r\n\ndata: b\n\r\n", "message|a||;message|b||;"},
    {"data: a\n\rdata: b\r\n\r", "message|a||;message|b||;"},
    {"data: a\ndata: b\rdata:c\r\n\n", "message|a\nb\nc||;"},
    {"data: a\r\ndata: b\r\n\r\n", "message|a\nb||;"},
    {"data: a\rdata: b\n\n", "message|a\nb||;"},
    {"data\n\n", "message|||;"},
    {"data:\n\n", "message|||;"},
    {"data:\ndata:\n\n", "message|\n||;"},
    {"data\ndata\ndata: x\n\n", "message|\n\nx||;"},
    {"data: a:b: c\n\n", "message|a:b: c||;"},
    {"data: a\n", ""},
    {"data: a", ""},
    {"data: a\n\ndata: b", "message|a||;"},
    {"data: a\n\ndata: b\n", "message|a||;"},
    {"event: x\ndata: a\n\ndata: b\n\n", "x|a||;message|b||;"},
    {"event: x\nevent: y\ndata: a\n\n", "y|a||;"},
    {"event: x\nevent\ndata: a\n\n", "message|a||;"},
    {"event: x\n\ndata: a\n\n", "message|a||;"},
    {": comment\ndata: a\n:\n: data: b\n\n", "message|a||;"},
    {":data: a\n\n", ""},
    {"Data: a\n\n", ""},
    {" data: a\n\n", ""},
    {"data : a\n\n", ""},
    {"dat: a\nda: b\ndataa: c\nevents: x\nretryy: 1\nids: 1\n\n", ""},
    {"x\ny: z\ndata: a\nlonger-than-any-name\n\n", "message|a||;"},
    {"id: 1\ndata: a\n\ndata: b\n\n", "message|a|#1|;message|b||;"},
    {"id: 1\ndata:\n\n", "message||#1|;"},
    {"id: 1\n\n", "!message||#1|;"},
    {"event: p\nid: 1\n\n", "!p||#1|;"},
    {"id: 1\nid: 2\n\n", "!message||#2|;"},
    {"id: 1\nid\n\n", "!message||#|;"},
    {"id: 1\nid:\ndata: a\n\n", "message|a|#|;"},
    {"id:  1 \n\n", "!message||# 1 |;"},
    {"retry: 20\n\n", "!message|||20;"},
    {"retry:20\ndata: a\n\ndata: b\n\n", "message|a||20;message|b||;"},
    {"retry: 0\n\n", "!message|||0;"},
    {"retry: 007\n\n", "!message|||7;"},
    {"retry: 1\nretry: x\n\n", "!message|||1;"},
    {"retry: 2\nretry: 3\n\n", "!message|||3;"},
    {"retry: -1\n\n", ""},
    {"retry: +1\n\n", ""},
    {"retry: 1 \n\n", ""},
    {"retry:  1\n\n", ""},
    {"retry: 1.5\n\n", ""},
    {"retry: 1e3\n\n", ""},
    {"retry:\n\n", ""},
    {"retry\n\n", ""},
    {"retry: 2147483646\n\n", "!message|||2147483646;"},
    {"retry: 2147483647\n\n", "!message|||2147483647;"},
    {"retry: 2147483648\n\n", "!message|||2147483647;"},
    {"retry: 99999999999999999999\n\n", "!message|||2147483647;"},
    {"\xef\xbb\xbf"
     "data: a\n\n",
     "message|a||;"},
    {"\xef\xbb\xbf\xef\xbb\xbf"
     "data: a\n\n",
     ""},
    {"\xef\xbb\xbf\n\ndata: a\n\n", "message|a||;"},
    {"\xef\xbb"
     "data: a\n\n",
     ""},
    {"\xef\n\ndata: a\n\n", "message|a||;"},
    {"\n\xef\xbb\xbf"
     "data: a\n\n",
     ""},
    {"data: \xef\xbb\xbf\n\n", "message|\xef\xbb\xbf||;"},
    /* U+2028, U+2029, U+0085, vertical tab, form feed: no line ends */
    {"data: a\xe2\x80\xa8"
     "b\xe2\x80\xa9"
     "c\xc2\x85"
     "d\x0b"
     "e\x0c"
     "f\n\n",
     "message|a\xe2\x80\xa8"
     "b\xe2\x80\xa9"
     "c\xc2\x85"
     "d\x0b"
     "e\x0c"
     "f||;"},
    {"data: \xff\xfe\n\n", "message|\xff\xfe||;"},
};

static ro_sse_code
run(const char *bytes, size_t len, size_t chunk, log *to, char *last_id)
{
    ro_sse sse;
    ro_sse_code code = RO_SSE_OK;
    ro_sse_init(&sse, 64, 16, record, to);
    for (size_t at = 0; at < len; at += chunk) {
        size_t step = len - at < chunk ? len - at : chunk;
        /* Its own block, so that a read past the chunk is seen. */
        char *copy = ro_memdup(bytes + at, step);
        CHECK(copy != NULL);
        code = ro_sse_feed(&sse, copy, step);
        ro_free(copy);
    }
    if (last_id != NULL) {
        ro_slice id = ro_buf_slice(&sse.id);
        CHECK(id.len < 32);
        if (id.len > 0) {
            memcpy(last_id, id.ptr, id.len);
        }
        last_id[id.len] = '\0';
    }
    ro_sse_free(&sse);
    ro_sse_free(&sse);
    return code;
}

static void
test_table(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t len = strlen(cases[i].stream);
        for (size_t chunk = 1; chunk <= len + 1; chunk++) {
            log to = {"", 0, 0, 0};
            CHECK(run(cases[i].stream, len, chunk, &to, NULL) == RO_SSE_OK);
            if (strcmp(to.text, cases[i].want) != 0) {
                fprintf(stderr, "case %zu by %zu: %s\n", i, chunk, to.text);
            }
            CHECK(strcmp(to.text, cases[i].want) == 0);
        }
    }
}

static void
test_nul(void)
{
    static const char stream[]
        = "id: 1\nid: a\0b\ndata: x\0y\nda\0ta: z\nretry: 1\0\n\n";
    static const char want[] = "message|x\0y|#1|;";
    for (size_t chunk = 1; chunk < sizeof(stream); chunk++) {
        log to = {"", 0, 0, 0};
        CHECK(run(stream, sizeof(stream) - 1, chunk, &to, NULL) == RO_SSE_OK);
        CHECK(to.len == sizeof(want) - 1
              && memcmp(to.text, want, sizeof(want)) == 0);
    }
}

/* An id counts for a resumption only when its block is complete. */
static void
test_last_id(void)
{
    static const struct {
        const char *stream;
        const char *id;
    } ids[] = {
        {"data: a\n\n", ""},
        {"id: 1\ndata: a\n\n", "1"},
        {"id: 1\ndata: a\n\ndata: b\n\n", "1"},
        {"id: 1\n\nid: 2\ndata: b\n", "1"},
        {"id: 1\n\nid: 2", "1"},
        {"id: 1\n\nid\n\n", ""},
        {"id: 1\n\nid: 2\n\n", "2"},
    };
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        char last_id[32];
        log to = {"", 0, 0, 0};
        CHECK(run(ids[i].stream, strlen(ids[i].stream), 3, &to, last_id)
              == RO_SSE_OK);
        CHECK(strcmp(last_id, ids[i].id) == 0);
    }
}

static ro_sse_code
feed_text(ro_sse *sse, const char *text)
{
    return ro_sse_feed(sse, text, strlen(text));
}

static void
test_bounds(void)
{
    ro_sse sse;
    log to = {"", 0, 0, 0};
    ro_sse_init(&sse, 4, 4, record, &to);
    CHECK(feed_text(&sse, "data: 1234\n\ndata: 12\ndata:3\n\n") == RO_SSE_OK);
    CHECK(feed_text(&sse, "event: abcd\nid: 1234\ndata\n\n") == RO_SSE_OK);
    CHECK(to.count == 3);
    CHECK(feed_text(&sse, "data: 12\ndata:34\n\n") == RO_SSE_TOO_LARGE);
    CHECK(to.count == 3);
    /* and for good */
    CHECK(feed_text(&sse, "\n\ndata: 1\n\n") == RO_SSE_TOO_LARGE);
    CHECK(ro_sse_feed(&sse, NULL, 0) == RO_SSE_TOO_LARGE);
    CHECK(to.count == 3);
    ro_sse_free(&sse);
    ro_sse_init(&sse, 4, 4, record, &to);
    CHECK(feed_text(&sse, "id: 12345") == RO_SSE_TOO_LARGE);
    ro_sse_free(&sse);
    ro_sse_init(&sse, 4, 4, record, &to);
    CHECK(ro_sse_feed(&sse, "id: 1234\0a", 10) == RO_SSE_OK);
    CHECK(ro_sse_feed(&sse, "\nid: 12345\0", 12) == RO_SSE_TOO_LARGE);
    ro_sse_free(&sse);
    ro_sse_init(&sse, 4, 4, record, &to);
    CHECK(feed_text(&sse, "event: 12345") == RO_SSE_TOO_LARGE);
    ro_sse_free(&sse);
}

/* Comments, unknown fields and void values cost no memory. */
static void
test_endless(void)
{
    const char *const heads[] = {
        ":", "unknown: ", "unknownunknown", "retry: x", "id: ",
    };
    static char page[4096];
    memset(page, 'x', sizeof(page));
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        ro_sse sse;
        log to = {"", 0, 0, 0};
        ro_sse_init(&sse, 64, 16, record, &to);
        CHECK(feed_text(&sse, heads[i]) == RO_SSE_OK);
        if (strcmp(heads[i], "id: ") == 0) {
            CHECK(ro_sse_feed(&sse, "\0", 1) == RO_SSE_OK);
        }
        for (int n = 0; n < 512; n++) {
            CHECK(ro_sse_feed(&sse, page, sizeof(page)) == RO_SSE_OK);
        }
        CHECK(sse.data.cap + sse.type.cap + sse.id.cap + sse.block_id.cap
                  + sse.line_id.cap
              <= 64);
        CHECK(feed_text(&sse, "\ndata: a\n\n") == RO_SSE_OK);
        CHECK(strcmp(to.text, "message|a||;") == 0);
        ro_sse_free(&sse);
    }
}

static void
test_stop(void)
{
    ro_sse sse;
    log to = {.stop_at = 2};
    ro_sse_init(&sse, 64, 16, record, &to);
    CHECK(feed_text(&sse, "data: a\n\ndata: b\n\ndata: c\n\n")
          == RO_SSE_STOPPED);
    CHECK(to.count == 2);
    CHECK(feed_text(&sse, "data: d\n\n") == RO_SSE_STOPPED);
    CHECK(to.count == 2);
    ro_sse_free(&sse);
    static const ro_sse zero;
    sse = zero;
    ro_sse_free(&sse);
}

#ifdef RO_TEST_ALLOC
static void
test_no_memory(void)
{
    static const char stream[]
        = "event: x\nid: 1\ndata: a\n\nid: 2\ndata: b\n\nid: 3\ndata: c\n\n";
    size_t live = ro_alloc_live();
    size_t nth = 0;
    bool done = false;
    while (!done && nth < 100) {
        ro_sse sse;
        log to = {"", 0, 0, 0};
        ro_sse_init(&sse, 64, 16, record, &to);
        ro_alloc_fail_at(++nth, 0);
        ro_sse_code code = ro_sse_feed(&sse, stream, sizeof(stream) - 1);
        done = ro_alloc_count() < nth;
        CHECK(code == (done ? RO_SSE_OK : RO_SSE_NO_MEMORY));
        CHECK(done == (to.count == 3));
        ro_sse_free(&sse);
        CHECK(ro_alloc_live() == live);
    }
    CHECK(done && nth > 4);
    ro_alloc_fail_at(0, 0);
}
#endif

int
main(void)
{
    test_table();
    test_nul();
    test_last_id();
    test_bounds();
    test_endless();
    test_stop();
#ifdef RO_TEST_ALLOC
    test_no_memory();
#endif
    return check_end();
}
