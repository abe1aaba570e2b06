#include <pthread.h>

#include "failing.h"
#include "core/limits.h"
#include "mcp/discovery.h"

#define S(text) ro_slice_str(text)

static const char good[]
    = "{\"name\":\"read\",\"annotations\":{\"readOnlyHint\":true}}";
static const char bad[]
    = "{\"name\":\"read\",\"annotations\":{\"readOnlyHint\":\"yes\"}}";

static ro_discovery *
discovered(const char *entry)
{
    ro_discovery *found = ro_discovery_new(S("srv_read"));
    CHECK(found != NULL);
    CHECK(ro_discovery_add(found, S("srv"), S(entry)));
    return found;
}

static bool
entry_is(const ro_entry *entry, const char *raw)
{
    return entry != NULL && ro_slice_equal(entry->raw, S(raw));
}

static void
test_entries_are_kept_by_server(void)
{
    ro_discovery *found = discovered(good);
    CHECK(ro_discovery_add(found, S("s"), S(bad)));
    CHECK(ro_discovery_add(found, S("srv"), S("{}")));
    const ro_entry *entry = ro_discovery_next(found, S("srv"), NULL);
    CHECK(entry_is(entry, good));
    entry = ro_discovery_next(found, S("srv"), entry);
    CHECK(entry_is(entry, "{}"));
    CHECK(ro_discovery_next(found, S("srv"), entry) == NULL);
    entry = ro_discovery_next(found, S("s"), NULL);
    CHECK(entry_is(entry, bad));
    CHECK(ro_discovery_next(found, S("s"), entry) == NULL);
    CHECK(ro_discovery_next(found, S(""), NULL) == NULL);
    CHECK(ro_slice_equal(ro_discovery_tool(found), S("srv_read")));
    ro_discovery_free(found);
}

/* Names and entries of no byte and of one. */
static void
test_short_ones_are_kept(void)
{
    const ro_slice none = {NULL, 0};
    ro_discovery *found = ro_discovery_new(none);
    CHECK(ro_discovery_add(found, none, none));
    CHECK(ro_discovery_add(found, S("s"), S("7")));
    ro_discovery_note_version(found, none, S("8"));
    CHECK(entry_is(ro_discovery_next(found, none, NULL), ""));
    CHECK(entry_is(ro_discovery_next(found, S("s"), NULL), "7"));
    CHECK(ro_slice_equal(ro_discovery_version(found, none), S("8")));
    CHECK(ro_discovery_tool(found).len == 0);
    ro_discovery_free(found);
}

static void
test_the_first_note_of_a_server_stays(void)
{
    ro_discovery *found = discovered(good);
    CHECK(ro_discovery_noted(found, S("srv")) == RO_REASON_NONE);
    ro_discovery_note(found, S("srv"), RO_REASON_TLS);
    ro_discovery_note(found, S("srv"), RO_REASON_PROXY);
    ro_discovery_note(found, S("other"), RO_REASON_JUNK);
    CHECK(ro_discovery_noted(found, S("srv")) == RO_REASON_TLS);
    CHECK(ro_discovery_noted(found, S("other")) == RO_REASON_JUNK);
    ro_discovery_free(found);
}

static void
test_the_last_version_of_a_server_counts(void)
{
    ro_discovery *found = discovered(good);
    CHECK(ro_discovery_version(found, S("srv")).len == 0);
    ro_discovery_note_version(found, S("srv"), S("\"1\""));
    ro_slice first = ro_discovery_version(found, S("srv"));
    ro_discovery_note_version(found, S("srv"), S("\"2\""));
    CHECK(ro_slice_equal(ro_discovery_version(found, S("srv")), S("\"2\"")));
    CHECK(ro_slice_equal(first, S("\"1\""))); /* borrowed, it stays */
    CHECK(ro_discovery_version(found, S("other")).len == 0);
    ro_discovery_free(found);
}

static void
test_only_one_entry_is_judged(void)
{
    ro_discovery *found = ro_discovery_new(S("srv_read"));
    CHECK(ro_discovery_judge(found, S("srv")) == RO_HINTS_ENTRY_NOT_OBJECT);
    CHECK(ro_discovery_add(found, S("srv"), S(good)));
    CHECK(ro_discovery_judge(found, S("srv")) == RO_HINTS_READ_ONLY);
    CHECK(ro_discovery_add(found, S("srv"), S(good)));
    CHECK(ro_discovery_judge(found, S("srv")) != RO_HINTS_READ_ONLY);
    ro_discovery_free(found);
}

static bool
list_is(ro_discovery *found, const char *server, const char *text)
{
    ro_buf out;
    ro_buf_init(&out, RO_MAX_DISCOVERY);
    bool same = ro_discovery_write_list(found, S(server), S("\"7\""), &out)
                    == RO_BUF_OK
                && ro_slice_equal(ro_buf_slice(&out), S(text));
    ro_buf_free(&out);
    return same;
}

static void
test_a_list_is_written_from_the_entries(void)
{
    ro_discovery *found = ro_discovery_new(S("srv_read"));
    CHECK(ro_discovery_add(found, S("srv"), S("{ \"a\":1, \"name\":1.10}")));
    CHECK(ro_discovery_add(found, S("srv"), S("{}")));
    CHECK(list_is(found, "srv",
                  "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":{\"tools\":["
                  "{\"name\":1.10},{}]}}"));
    CHECK(list_is(found, "other",
                  "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":{\"tools\":["
                  "]}}"));
    ro_discovery_free(found);
}

static void
test_an_output_schema_is_found(void)
{
    static const struct {
        const char *entry;
        bool has;
    } cases[] = {
        {"{\"name\":\"read\"}", false},
        {"{\"outputSchema\":null}", false},
        {"{\"outputSchema\":{}}", true},
        {"{\"output\\u0053chema\":{}}", true},
        {"[]", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_discovery *found = discovered(cases[i].entry);
        CHECK(ro_discovery_has_output_schema(found, S("srv")) == cases[i].has);
        CHECK(!ro_discovery_has_output_schema(found, S("other")));
        ro_discovery_free(found);
    }
}

static void
test_bytes_are_counted_up_to_the_bound(void)
{
    ro_discovery *found = ro_discovery_new(S("srv_read"));
    CHECK(ro_discovery_count(found, RO_MAX_TOTAL - 1));
    CHECK(ro_discovery_count(found, 1));
    CHECK(ro_discovery_count(found, 0));
    CHECK(!ro_discovery_count(found, 1));
    CHECK(!ro_discovery_count(found, SIZE_MAX));
    ro_discovery_free(found);
    found = ro_discovery_new(S("srv_read"));
    CHECK(!ro_discovery_count(found, RO_MAX_TOTAL + 1u));
    CHECK(!ro_discovery_count(found, 1)); /* it stays passed */
    ro_discovery_free(found);
}

/* ---- threads ---- */

struct race {
    ro_discovery *found;
    pthread_barrier_t *start;
};

enum { RACERS = 4, ROUNDS = 200 };

static void *
run_race(void *arg)
{
    struct race *race = arg;
    (void)pthread_barrier_wait(race->start);
    for (int i = 0; i < ROUNDS; i++) {
        (void)ro_discovery_add(race->found, S("srv"), S(good));
        ro_discovery_note(race->found, S("srv"), RO_REASON_TLS);
        ro_discovery_note_version(race->found, S("srv"), S("\"1\""));
        (void)ro_discovery_judge(race->found, S("srv"));
        (void)ro_discovery_version(race->found, S("srv"));
    }
    return NULL;
}

static void
test_many_threads_keep_one_server(void)
{
    ro_discovery *found = ro_discovery_new(S(""));
    pthread_barrier_t start;
    pthread_t threads[RACERS];
    struct race race = {found, &start};
    size_t kept = 0;
    CHECK(pthread_barrier_init(&start, NULL, RACERS) == 0);
    for (int i = 0; i < RACERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, run_race, &race) == 0);
    }
    for (int i = 0; i < RACERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    for (const ro_entry *each = NULL;
         (each = ro_discovery_next(found, S("srv"), each)) != NULL;) {
        kept++;
    }
    CHECK(kept == (size_t)RACERS * ROUNDS);
    (void)pthread_barrier_destroy(&start);
    ro_discovery_free(found);
}

/* ---- memory ---- */

/* All that is kept of a server; false when some part was refused. */
static bool
live(void *ctx)
{
    (void)ctx;
    ro_discovery *found = ro_discovery_new(S("srv_read"));
    if (found == NULL) {
        return false;
    }
    CHECK(ro_slice_equal(ro_discovery_tool(found), S("srv_read")));
    ro_discovery_note(found, S("srv"), RO_REASON_TLS);
    ro_discovery_note_version(found, S("srv"), S("\"1\""));
    bool whole = ro_discovery_add(found, S("srv"), S(good));
    bool allowed = ro_discovery_judge(found, S("srv")) == RO_HINTS_READ_ONLY;
    CHECK(whole == (ro_discovery_next(found, S("srv"), NULL) != NULL));
    whole = allowed && ro_discovery_noted(found, S("srv")) == RO_REASON_TLS
            && ro_discovery_version(found, S("srv")).len == 3;
    ro_discovery_free(found);
    return whole;
}

static void
test_every_allocation_fails_in_turn(void)
{
    CHECK(check_failing(live, NULL) > 4);
}

int
main(void)
{
    test_entries_are_kept_by_server();
    test_short_ones_are_kept();
    test_the_first_note_of_a_server_stays();
    test_the_last_version_of_a_server_counts();
    test_only_one_entry_is_judged();
    test_a_list_is_written_from_the_entries();
    test_an_output_schema_is_found();
    test_bytes_are_counted_up_to_the_bound();
    test_many_threads_keep_one_server();
    test_every_allocation_fails_in_turn();
    return check_end();
}
