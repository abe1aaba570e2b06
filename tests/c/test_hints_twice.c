/* The second reader of the hints has the last word: what it sees is put in
 * its place here, and the verdict follows it. */
#include "check.h"

#include "core/doc.h"

/* The file under test under other names, with a second reader of ours. */
static ro_doc_code seen_lookup(ro_slice object, const char *const *names,
                               size_t count, ro_doc_value *values);

#define ro_doc_lookup seen_lookup
#define ro_hints_judge judged
#define ro_hints_reason judged_reason
#define ro_hints_text judged_text
#define ro_hints_remedy judged_remedy
#include "core/hints.c"

#define MAX_DEPTH 64

static ro_doc_value seen[N_HINTS];
static ro_doc_code seen_code;
static unsigned seen_calls;
static bool is_honest;

#undef ro_doc_lookup
static ro_doc_code
seen_lookup(ro_slice object, const char *const *names, size_t count,
            ro_doc_value *values)
{
    seen_calls++;
    if (is_honest) {
        return ro_doc_lookup(object, names, count, values);
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = seen[i];
    }
    return seen_code;
}

static const char good[] = "{\"annotations\":{\"readOnlyHint\":true,"
                           "\"destructiveHint\":false}}";

static ro_hints_code
judge(const char *entry)
{
    return ro_hints_judge(ro_slice_str(entry), MAX_DEPTH);
}

static void
test_both_must_see_the_same(void)
{
    static const ro_doc_value values[]
        = {RO_DOC_ABSENT, RO_DOC_TRUE, RO_DOC_FALSE, RO_DOC_OTHER};
    static const ro_doc_value right[N_HINTS]
        = {RO_DOC_TRUE, RO_DOC_FALSE, RO_DOC_ABSENT, RO_DOC_ABSENT};
    seen_code = RO_DOC_OK;
    for (int hint = 0; hint < N_HINTS; hint++) {
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
            memcpy(seen, right, sizeof(seen));
            seen[hint] = values[i];
            CHECK(judge(good)
                  == (values[i] == right[hint] ? RO_HINTS_READ_ONLY
                                               : RO_HINTS_DISAGREEMENT));
        }
    }
    seen_code = RO_DOC_NO_MEMORY;
    CHECK(judge(good) == RO_HINTS_NO_MEMORY);
}

/* What the first refuses needs no second look. */
static void
test_it_is_asked_of_what_would_pass(void)
{
    is_honest = true;
    seen_calls = 0;
    CHECK(judge("{\"annotations\":{\"readOnlyHint\":false}}")
          == RO_HINTS_READ_ONLY_NOT_TRUE);
    CHECK(seen_calls == 0);
    CHECK(judge(good) == RO_HINTS_READ_ONLY);
    CHECK(seen_calls == 1);
    is_honest = false;
}

/* Members that are no hints, before, between and behind two hints; keys are
 * numbered so that no one comes twice. */
static char *
spread(unsigned before, unsigned between)
{
    size_t room = 64u * (before + between + 4u);
    char *text = malloc(room);
    if (text == NULL) {
        abort();
    }
    int at = snprintf(text, room, "{\"annotations\":{");
    for (unsigned i = 0; i < before + between; i++) {
        if (i == before) {
            at += snprintf(text + at, room - (size_t)at,
                           "\"readOnlyHint\":true,");
        }
        at += snprintf(text + at, room - (size_t)at, "\"x%u\":1,", i);
    }
    (void)snprintf(text + at, room - (size_t)at,
                   "%s\"destructiveHint\":false}}",
                   between == 0 ? "\"readOnlyHint\":true," : "");
    return text;
}

/* Hints on either side of a batch's edge are all seen, once. */
static void
test_batches(void)
{
    is_honest = true;
    for (unsigned before = BATCH - 3; before <= BATCH + 2; before++) {
        for (unsigned between = 0; between <= BATCH + 1; between += 13) {
            char *entry = spread(before, between);
            seen_calls = 0;
            CHECK(judge(entry) == RO_HINTS_READ_ONLY);
            CHECK(seen_calls == (before + between + 2 + BATCH - 1) / BATCH);
            free(entry);
        }
    }
    is_honest = false;
}

/* A hint that the second reader sees in two batches is no hint. */
static void
test_a_repeat_across_batches(void)
{
    static const ro_doc_value right[N_HINTS]
        = {RO_DOC_TRUE, RO_DOC_FALSE, RO_DOC_ABSENT, RO_DOC_ABSENT};
    char *entry = spread(BATCH, 1);
    memcpy(seen, right, sizeof(seen));
    seen_code = RO_DOC_OK;
    seen_calls = 0;
    CHECK(judge(entry) == RO_HINTS_DISAGREEMENT);
    CHECK(seen_calls == 2);
    free(entry);
}

int
main(void)
{
    test_both_must_see_the_same();
    test_it_is_asked_of_what_would_pass();
    test_batches();
    test_a_repeat_across_batches();
    return check_end();
}
