/* The verdict on a tool entry, one row per rule. */
#include "check.h"

#include "core/alloc.h"
#include "core/buf.h"
#include "core/doc.h"
#include "core/hints.h"

#define ENTRY(annotations) "{\"name\":\"t\",\"annotations\":" annotations "}"

static const struct {
    const char *entry;
    ro_hints_code code;
} cases[] = {
    {ENTRY("{\"readOnlyHint\":true}"), RO_HINTS_READ_ONLY},
    {" { \"annotations\" : { \"readOnlyHint\" : true } } \n",
     RO_HINTS_READ_ONLY},
    {ENTRY("{\"readOnlyHint\":true,\"destructiveHint\":false}"),
     RO_HINTS_READ_ONLY},
    {ENTRY("{\"readOnlyHint\":true,\"destructiveHint\":false,"
           "\"idempotentHint\":true,\"openWorldHint\":true,\"title\":\"T\"}"),
     RO_HINTS_READ_ONLY},
    {ENTRY("{\"readOnlyHint\":true,\"idempotentHint\":false,"
           "\"openWorldHint\":false}"),
     RO_HINTS_READ_ONLY},
    {ENTRY("{\"\\u0072eadOnlyHint\":true}"), RO_HINTS_READ_ONLY},
    /* the longest spelling of the longest name */
    {ENTRY("{\"readOnlyHint\":true,\"\\u0064\\u0065\\u0073\\u0074\\u0072"
           "\\u0075\\u0063\\u0074\\u0069\\u0076\\u0065\\u0048\\u0069"
           "\\u006e\\u0074\":false}"),
     RO_HINTS_READ_ONLY},
    /* title and unknown keys do not matter */
    {ENTRY("{\"title\":5,\"readOnlyHint\":true,\"x\":{\"y\":[1]}}"),
     RO_HINTS_READ_ONLY},
    {ENTRY("{\"readonlyhint\":false,\"readOnlyHint\":true}"),
     RO_HINTS_READ_ONLY},
    {ENTRY("{\"DestructiveHint\":true,\"readOnlyHint\":true}"),
     RO_HINTS_READ_ONLY},
    {ENTRY("{\"readOnlyHint\\u0000x\":false,\"readOnlyHint\":true}"),
     RO_HINTS_READ_ONLY},
    {ENTRY("{\"readOnlyHint\":true,\"destructiveHint\\u0000\":true}"),
     RO_HINTS_READ_ONLY},
    {ENTRY("{\"readOnlyHint\":true,\"\":1,\"\\u0000\":2}"),
     RO_HINTS_READ_ONLY},
    {ENTRY("{\"readOnlyHint\":true,\"x\":1000000000000000000000000000000000"
           "0000000000000000000000000000000000000000000000000}"),
     RO_HINTS_READ_ONLY},
    {"{\"readOnlyHint\":1,\"annotations\":{\"readOnlyHint\":true},"
     "\"inputSchema\":{\"annotations\":5}}",
     RO_HINTS_READ_ONLY},

    {ENTRY("{\"readOnlyHint\\u0000x\":true}"), RO_HINTS_READ_ONLY_MISSING},
    {ENTRY("{}"), RO_HINTS_READ_ONLY_MISSING},
    {ENTRY("{\"readonlyhint\":true}"), RO_HINTS_READ_ONLY_MISSING},
    {ENTRY("{\"readOnlyHint \":true}"), RO_HINTS_READ_ONLY_MISSING},
    {ENTRY("{\"x\":{\"readOnlyHint\":true}}"), RO_HINTS_READ_ONLY_MISSING},
    {ENTRY("{\"destructiveHint\":false}"), RO_HINTS_READ_ONLY_MISSING},

    {ENTRY("{\"readOnlyHint\":\"yes\"}"), RO_HINTS_READ_ONLY_NOT_BOOLEAN},
    {ENTRY("{\"readOnlyHint\":1}"), RO_HINTS_READ_ONLY_NOT_BOOLEAN},
    {ENTRY("{\"readOnlyHint\":1.0}"), RO_HINTS_READ_ONLY_NOT_BOOLEAN},
    {ENTRY("{\"readOnlyHint\":\"true\"}"), RO_HINTS_READ_ONLY_NOT_BOOLEAN},
    {ENTRY("{\"readOnlyHint\":\"maybe\"}"), RO_HINTS_READ_ONLY_NOT_BOOLEAN},
    {ENTRY("{\"readOnlyHint\":null}"), RO_HINTS_READ_ONLY_NOT_BOOLEAN},
    {ENTRY("{\"readOnlyHint\":[true]}"), RO_HINTS_READ_ONLY_NOT_BOOLEAN},
    {ENTRY("{\"readOnlyHint\":{}}"), RO_HINTS_READ_ONLY_NOT_BOOLEAN},
    {ENTRY("{\"readOnlyHint\":false}"), RO_HINTS_READ_ONLY_NOT_TRUE},
    {ENTRY("{\"readOnlyHint\":false,\"destructiveHint\":true}"),
     RO_HINTS_READ_ONLY_NOT_TRUE},

    {ENTRY("{\"readOnlyHint\":true,\"destructiveHint\":true}"),
     RO_HINTS_DESTRUCTIVE},
    {ENTRY("{\"readOnlyHint\":true,\"destructiveHint\":null}"),
     RO_HINTS_DESTRUCTIVE_NOT_BOOLEAN},
    {ENTRY("{\"readOnlyHint\":true,\"destructiveHint\":0}"),
     RO_HINTS_DESTRUCTIVE_NOT_BOOLEAN},
    {ENTRY("{\"readOnlyHint\":true,\"destructiveHint\":\"false\"}"),
     RO_HINTS_DESTRUCTIVE_NOT_BOOLEAN},
    {ENTRY("{\"readOnlyHint\":true,\"idempotentHint\":\"no\"}"),
     RO_HINTS_IDEMPOTENT_NOT_BOOLEAN},
    {ENTRY("{\"readOnlyHint\":true,\"idempotentHint\":null}"),
     RO_HINTS_IDEMPOTENT_NOT_BOOLEAN},
    {ENTRY("{\"readOnlyHint\":true,\"openWorldHint\":1}"),
     RO_HINTS_OPEN_WORLD_NOT_BOOLEAN},
    {ENTRY("{\"readOnlyHint\":true,\"openWorldHint\":null}"),
     RO_HINTS_OPEN_WORLD_NOT_BOOLEAN},

    {ENTRY("{\"readOnlyHint\":false,\"readOnlyHint\":true}"),
     RO_HINTS_DUPLICATE_KEY},
    {ENTRY("{\"readOnlyHint\":true,\"readOnlyHint\":true}"),
     RO_HINTS_DUPLICATE_KEY},
    {ENTRY("{\"readOnlyHint\":false,\"read\\u004fnlyHint\":true}"),
     RO_HINTS_DUPLICATE_KEY},
    {ENTRY("{\"readOnlyHint\":true,\"x\":1,\"x\":1}"), RO_HINTS_DUPLICATE_KEY},
    {ENTRY("{\"readOnlyHint\":true,\"x\":{\"y\":1,\"y\":1}}"),
     RO_HINTS_DUPLICATE_KEY},
    {"{\"name\":\"t\",\"name\":\"u\",\"annotations\":"
     "{\"readOnlyHint\":true}}",
     RO_HINTS_DUPLICATE_KEY},
    {"{\"inputSchema\":{\"type\":1,\"typ\\u0065\":2},\"annotations\":"
     "{\"readOnlyHint\":true}}",
     RO_HINTS_READ_ONLY},
    {"{\"annotations\":{\"readOnlyHint\":true},\"annotations\":"
     "{\"readOnlyHint\":true}}",
     RO_HINTS_ANNOTATIONS_DUPLICATED},
    {"{\"annotations\":{\"readOnlyHint\":false},\"\\u0061nnotations\":"
     "{\"readOnlyHint\":true}}",
     RO_HINTS_ANNOTATIONS_DUPLICATED},

    {"{\"name\":\"t\"}", RO_HINTS_ANNOTATIONS_MISSING},
    {"{}", RO_HINTS_ANNOTATIONS_MISSING},
    {"{\"Annotations\":{\"readOnlyHint\":true}}",
     RO_HINTS_ANNOTATIONS_MISSING},
    {"{\"annotations\\u0000\":{\"readOnlyHint\":true}}",
     RO_HINTS_ANNOTATIONS_MISSING},
    {ENTRY("null"), RO_HINTS_ANNOTATIONS_NOT_OBJECT},
    {ENTRY("[]"), RO_HINTS_ANNOTATIONS_NOT_OBJECT},
    {ENTRY("true"), RO_HINTS_ANNOTATIONS_NOT_OBJECT},
    {ENTRY("\"{}\""), RO_HINTS_ANNOTATIONS_NOT_OBJECT},

    {"[{\"annotations\":{\"readOnlyHint\":true}}]", RO_HINTS_ENTRY_NOT_OBJECT},
    {"null", RO_HINTS_ENTRY_NOT_OBJECT},
    {"", RO_HINTS_MALFORMED},
    {ENTRY("{\"readOnlyHint\":True}"), RO_HINTS_MALFORMED},
    {ENTRY("{\"readOnlyHint\":true,}"), RO_HINTS_MALFORMED},
    {ENTRY("{\"readOnlyHint\":true,\"x\":\"\\ud800\"}"), RO_HINTS_MALFORMED},
    {ENTRY("{\"readOnlyHint\":true,\"x\":\"\xff\"}"), RO_HINTS_MALFORMED},
    {ENTRY("{\"readOnlyHint\":true,\"x\":01}"), RO_HINTS_MALFORMED},
    {ENTRY("{\"readOnlyHint\":true}") "x", RO_HINTS_MALFORMED},
    {"\xef\xbb\xbf" ENTRY("{\"readOnlyHint\":true}"), RO_HINTS_MALFORMED},
    {ENTRY("{\"readOnlyHint\":true,\"x\":[[[[[[[]]]]]]]}"), RO_HINTS_TOO_DEEP},
};

static void
test_table(void)
{
    bool seen[RO_HINTS_CODES] = {false};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_hints_code code = ro_hints_judge(ro_slice_str(cases[i].entry), 8);
        if (code != cases[i].code) {
            fprintf(stderr, "%s: %s\n", cases[i].entry, ro_hints_reason(code));
        }
        CHECK(code == cases[i].code);
        seen[code] = true;
    }
    for (unsigned i = 0; i < RO_HINTS_CODES; i++) {
        /* Two need a broken library or a full heap. */
        CHECK(seen[i] || i == RO_HINTS_DISAGREEMENT
              || i == RO_HINTS_NO_MEMORY);
    }
}

static void
test_depth(void)
{
    const char *entry = ENTRY("{\"readOnlyHint\":true,\"x\":[[]]}");
    CHECK(ro_hints_judge(ro_slice_str(entry), 4) == RO_HINTS_READ_ONLY);
    CHECK(ro_hints_judge(ro_slice_str(entry), 3) == RO_HINTS_TOO_DEEP);
}

static void
test_reasons(void)
{
    for (unsigned i = 0; i < RO_HINTS_CODES; i++) {
        const char *reason = ro_hints_reason((ro_hints_code)i);
        CHECK(reason != NULL && reason[0] != '\0');
        for (unsigned j = 0; j < i; j++) {
            CHECK(strcmp(reason, ro_hints_reason((ro_hints_code)j)) != 0);
        }
        for (const char *c = reason; *c; c++) {
            CHECK(*c == '_' || (*c >= 'a' && *c <= 'z'));
        }
    }
    CHECK(strcmp(ro_hints_reason((ro_hints_code)999), "malformed") == 0);
}

/* An entry whose annotations hold many members beside the hints, which are
 * first, in the middle and last, so that they fall into several batches. */
static ro_hints_code
judge_many(unsigned members, const char *last, size_t *len)
{
    ro_buf entry;
    ro_buf_init(&entry, 1u << 24);
    const ro_slice head
        = ro_slice_str("{\"annotations\":{\"readOnlyHint\":true");
    CHECK(ro_buf_append_slice(&entry, head) == RO_BUF_OK);
    for (unsigned i = 0; i < members; i++) {
        char member[32];
        (void)snprintf(member, sizeof(member), ",\"k%u\":%u", i, i);
        CHECK(ro_buf_append_slice(&entry, ro_slice_str(member)) == RO_BUF_OK);
        if (i == members / 2) {
            CHECK(ro_buf_append_slice(&entry,
                                      ro_slice_str(",\"idempotentHint\":true"))
                  == RO_BUF_OK);
        }
    }
    CHECK(ro_buf_append_slice(&entry, ro_slice_str(last)) == RO_BUF_OK);
    CHECK(ro_buf_append_slice(&entry, ro_slice_str("}}")) == RO_BUF_OK);
    ro_hints_code code = ro_hints_judge(ro_buf_slice(&entry), 64);
    *len = entry.len;
    ro_buf_free(&entry);
    return code;
}

static void
test_many(void)
{
    size_t len;
    for (unsigned members = 60; members < 70; members++) {
        CHECK(judge_many(members, "", &len) == RO_HINTS_READ_ONLY);
        CHECK(judge_many(members, ",\"destructiveHint\":false", &len)
              == RO_HINTS_READ_ONLY);
        CHECK(judge_many(members, ",\"destructiveHint\":true", &len)
              == RO_HINTS_DESTRUCTIVE);
    }
    CHECK(judge_many(20000, ",\"openWorldHint\":false", &len)
          == RO_HINTS_READ_ONLY);
    CHECK(judge_many(20000, ",\"read\\u004fnlyHint\":true", &len)
          == RO_HINTS_DUPLICATE_KEY);
}

/* What cJSON is asked, without the scanner before it. */
static void
test_lookup(void)
{
    const char *const names[] = {"a", "B", "c", "d"};
    ro_doc_value values[4];
    CHECK(ro_doc_lookup(
              ro_slice_str("{\"b\":true,\"a\":true,\"B\":false,\"c\":null}"),
              names, 4, values)
          == RO_DOC_OK);
    CHECK(values[0] == RO_DOC_TRUE && values[1] == RO_DOC_FALSE
          && values[2] == RO_DOC_OTHER && values[3] == RO_DOC_ABSENT);
    CHECK(ro_doc_lookup(ro_slice_str("{\"\\u0061\":1}"), names, 1, values)
          == RO_DOC_OK);
    CHECK(values[0] == RO_DOC_OTHER);
    CHECK(ro_doc_lookup(ro_slice_str("[]"), names, 1, values)
          == RO_DOC_REFUSED);
}

#ifdef RO_TEST_ALLOC
static void
check_no_memory(ro_slice entry)
{
    size_t live = ro_alloc_live();
    for (int sticky = 0; sticky < 2; sticky++) {
        bool done = false;
        size_t nth = 0;
        while (!done && nth < 200) {
            ro_alloc_fail_at(++nth, sticky);
            ro_hints_code code = ro_hints_judge(entry, 64);
            done = ro_alloc_count() < nth;
            CHECK(code == (done ? RO_HINTS_READ_ONLY : RO_HINTS_NO_MEMORY));
            CHECK(ro_alloc_live() == live);
        }
        CHECK(done && nth > 3);
    }
    ro_alloc_fail_at(0, 0);
}

/* Of a small entry, and of one whose keys need memory to be compared. */
static void
test_no_memory(void)
{
    static const char small[]
        = ENTRY("{\"readOnlyHint\":true,\"destructiveHint\":false}");
    char wide[2048];
    size_t len = sizeof(small) - 2; /* without the brace at its end */
    memcpy(wide, small, len);
    for (int i = 0; i < 80; i++) {
        len += (size_t)snprintf(wide + len, sizeof(wide) - len, ",\"k%d\":0",
                                i);
    }
    wide[len++] = '}';
    check_no_memory(ro_slice_str(small));
    check_no_memory(ro_slice_of(wide, len));
}
#endif

int
main(void)
{
#ifdef RO_TEST_ALLOC
    ro_doc_use_alloc();
#endif
    test_table();
    test_depth();
    test_reasons();
    test_many();
    test_lookup();
#ifdef RO_TEST_ALLOC
    test_no_memory();
#endif
    return check_end();
}
