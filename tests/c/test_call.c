#include <pthread.h>

#include "check.h"
#include "core/alloc.h"
#include "core/call.h"
#include "core/limits.h"

#define S(text) ro_slice_str(text)

static const char good[]
    = "{\"name\":\"read\",\"annotations\":{\"readOnlyHint\":true}}";
static const char bad[]
    = "{\"name\":\"read\",\"annotations\":{\"readOnlyHint\":\"yes\"}}";

static ro_call *
discovered(const char *entry)
{
    ro_call *call = ro_call_new(S("srv_read"));
    CHECK(call != NULL);
    CHECK(ro_call_add_entry(call, S("srv"), S(entry)));
    return call;
}

/* ---- discovery ---- */

static void
test_entries_are_kept_by_server(void)
{
    ro_call *call = discovered(good);
    ro_slice entry = {NULL, 0};
    CHECK(ro_call_add_entry(call, S("s"), S(bad)));
    CHECK(ro_call_entry(call, S("srv"), 0, &entry));
    CHECK(ro_slice_equal(entry, S(good)));
    CHECK(!ro_call_entry(call, S("srv"), 1, &entry));
    CHECK(ro_call_entry(call, S("s"), 0, &entry));
    CHECK(ro_slice_equal(entry, S(bad)));
    CHECK(!ro_call_entry(call, S(""), 0, &entry));
    CHECK(ro_slice_equal(ro_call_tool(call), S("srv_read")));
    ro_call_free(call);
}

static void
test_the_first_note_of_a_server_stays(void)
{
    ro_call *call = discovered(good);
    CHECK(ro_call_noted(call, S("srv")) == NULL);
    ro_call_note(call, S("srv"), "first");
    ro_call_note(call, S("srv"), "second");
    ro_call_note(call, S("other"), "third");
    CHECK(strcmp(ro_call_noted(call, S("srv")), "first") == 0);
    CHECK(strcmp(ro_call_noted(call, S("other")), "third") == 0);
    ro_call_free(call);
}

static void
test_only_one_entry_is_judged(void)
{
    ro_call *call = ro_call_new(S("srv_read"));
    CHECK(ro_call_judge(call, S("srv")) == RO_HINTS_ENTRY_NOT_OBJECT);
    CHECK(ro_call_add_entry(call, S("srv"), S(good)));
    CHECK(ro_call_judge(call, S("srv")) == RO_HINTS_READ_ONLY);
    CHECK(ro_call_add_entry(call, S("srv"), S(good)));
    CHECK(ro_call_judge(call, S("srv")) != RO_HINTS_READ_ONLY);
    ro_call_free(call);
}

static bool
list_is(ro_call *call, const char *server, const char *text)
{
    ro_buf out;
    ro_buf_init(&out, RO_MAX_DISCOVERY);
    bool same
        = ro_call_write_list(call, S(server), S("\"7\""), &out) == RO_BUF_OK
          && ro_slice_equal(ro_buf_slice(&out), S(text));
    ro_buf_free(&out);
    return same;
}

static void
test_a_list_is_written_from_the_entries(void)
{
    ro_call *call = ro_call_new(S("srv_read"));
    CHECK(ro_call_add_entry(call, S("srv"), S("{\"a\":1.10}")));
    CHECK(ro_call_add_entry(call, S("srv"), S("{}")));
    CHECK(list_is(call, "srv",
                  "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":{\"tools\":["
                  "{\"a\":1.10},{}]}}"));
    CHECK(list_is(call, "other",
                  "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":{\"tools\":["
                  "]}}"));
    ro_call_free(call);
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
        ro_call *call = discovered(cases[i].entry);
        CHECK(ro_call_has_output_schema(call, S("srv")) == cases[i].has);
        CHECK(!ro_call_has_output_schema(call, S("other")));
        ro_call_free(call);
    }
}

static void
test_bytes_are_counted_up_to_the_bound(void)
{
    ro_call *call = ro_call_new(S("srv_read"));
    CHECK(ro_call_count(call, RO_MAX_TOTAL - 1));
    CHECK(ro_call_count(call, 1));
    CHECK(ro_call_count(call, 0));
    CHECK(!ro_call_count(call, 1));
    CHECK(!ro_call_count(call, SIZE_MAX));
    ro_call_free(call);
    call = ro_call_new(S("srv_read"));
    CHECK(!ro_call_count(call, RO_MAX_TOTAL + 1u));
    CHECK(!ro_call_count(call, 1)); /* it stays passed */
    ro_call_free(call);
}

/* ---- the gate ---- */

static bool
passes(ro_call *call, const char *server, const char *name)
{
    ro_buf out;
    ro_buf_init(&out, RO_MAX_STDIN);
    bool passed = ro_call_pass(call, S(server), S(name), &out);
    CHECK(passed == (out.len != 0));
    ro_buf_free(&out);
    return passed;
}

static void
test_the_gate_opens_for_the_owner_alone(void)
{
    static const char *const servers[]
        = {"", "s", "sr", "srv_", "srv_read", "srv_read_", "SRV", "other"};
    ro_call *call = discovered(good);
    for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
        CHECK(!ro_call_open(call, S(servers[i]), S("{}")));
    }
    CHECK(ro_call_gate(call) == RO_GATE_CLOSED);
    CHECK(ro_call_open(call, S("srv"), S("{}")));
    CHECK(ro_call_gate(call) == RO_GATE_OPEN);
    CHECK(!ro_call_open(call, S("srv"), S("{}")));
    ro_call_free(call);
}

static void
test_the_gate_needs_the_verdict(void)
{
    ro_call *call = discovered(bad);
    CHECK(!ro_call_open(call, S("srv"), S("{}")));
    ro_call_free(call);
    call = discovered(good);
    CHECK(ro_call_add_entry(call, S("srv"), S(good)));
    CHECK(!ro_call_open(call, S("srv"), S("{}")));
    CHECK(ro_call_gate(call) == RO_GATE_CLOSED);
    ro_call_free(call);
}

static void
test_the_gate_lets_one_call_pass(void)
{
    static const char *const names[]
        = {"", "rea", "read_", "readd", "Read", "srv_read", "_read"};
    ro_call *call = discovered(good);
    ro_buf out;
    CHECK(!passes(call, "srv", "read"));
    CHECK(ro_call_open(call, S("srv"), S("{ \"a\" : 1.10 }")));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        CHECK(!passes(call, "srv", names[i]));
    }
    CHECK(!passes(call, "other", "read"));
    CHECK(!passes(call, "sr", "v_read"));
    CHECK(!passes(call, "", "srv_read"));
    ro_buf_init(&out, 4); /* refused: too small for the arguments */
    CHECK(!ro_call_pass(call, S("srv"), S("read"), &out));
    CHECK(ro_call_gate(call) == RO_GATE_OPEN);
    ro_buf_init(&out, RO_MAX_STDIN);
    CHECK(ro_call_pass(call, S("srv"), S("read"), &out));
    CHECK(ro_slice_equal(ro_buf_slice(&out), S("{\"a\":1.10}")));
    ro_buf_free(&out);
    CHECK(ro_call_gate(call) == RO_GATE_USED);
    CHECK(!passes(call, "srv", "read"));
    CHECK(!ro_call_open(call, S("srv"), S("{}")));
    ro_call_free(call);
}

static void
test_an_audit_opens_nothing(void)
{
    ro_call *call = ro_call_new(S(""));
    CHECK(ro_call_add_entry(call, S("srv"), S(good)));
    CHECK(!ro_call_open(call, S("srv"), S("{}")));
    CHECK(!ro_call_open(call, S(""), S("{}")));
    CHECK(!passes(call, "srv", "read"));
    CHECK(!passes(call, "", ""));
    ro_call_free(call);
}

struct race {
    ro_call *call;
    pthread_barrier_t *start;
    unsigned opened;
    unsigned passed;
};

static void *
run_race(void *arg)
{
    struct race *race = arg;
    (void)pthread_barrier_wait(race->start);
    for (int i = 0; i < 200; i++) {
        ro_buf out;
        ro_buf_init(&out, RO_MAX_STDIN);
        race->opened += ro_call_open(race->call, S("srv"), S("{}"));
        race->passed += ro_call_pass(race->call, S("srv"), S("read"), &out);
        ro_call_record(race->call, RO_CODE_TOOL_FAILED);
        ro_buf_free(&out);
    }
    return NULL;
}

static void
test_many_threads_get_one_pass(void)
{
    enum { THREADS = 4 };
    ro_call *call = discovered(good);
    pthread_barrier_t start;
    pthread_t threads[THREADS];
    struct race races[THREADS];
    unsigned opened = 0;
    unsigned passed = 0;
    CHECK(pthread_barrier_init(&start, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++) {
        races[i] = (struct race){call, &start, 0, 0};
        CHECK(pthread_create(&threads[i], NULL, run_race, &races[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        opened += races[i].opened;
        passed += races[i].passed;
    }
    CHECK(opened == 1);
    CHECK(passed == 1);
    (void)pthread_barrier_destroy(&start);
    ro_call_free(call);
}

/* ---- the record ---- */

static void
test_the_first_outcome_stays(void)
{
    ro_code code = RO_CODE_OK;
    ro_call *call = discovered(good);
    CHECK(!ro_call_outcome(call, &code));
    ro_call_record(call, RO_CODE_TOOL_FAILED);
    ro_call_record_ok(call, S("{\"a\":1}"));
    ro_call_record(call, RO_CODE_TIMEOUT);
    CHECK(ro_call_outcome(call, &code) && code == RO_CODE_TOOL_FAILED);
    CHECK(ro_call_structured(call).len == 0);
    ro_call_free(call);
}

static void
test_a_success_keeps_what_was_structured(void)
{
    ro_code code = RO_CODE_TIMEOUT;
    ro_call *call = discovered(good);
    ro_call_record_ok(call, S("{ \"a\" : 1e2 }"));
    ro_call_record(call, RO_CODE_TIMEOUT);
    CHECK(ro_call_outcome(call, &code) && code == RO_CODE_OK);
    CHECK(ro_slice_equal(ro_call_structured(call), S("{\"a\":1e2}")));
    ro_call_free(call);
    call = discovered(good);
    ro_call_record_ok(call, (ro_slice){NULL, 0});
    CHECK(ro_call_outcome(call, &code) && code == RO_CODE_OK);
    CHECK(ro_call_structured(call).len == 0);
    ro_call_free(call);
}

/* ---- memory ---- */

/* The whole life of a call; false when some part was refused. */
static bool
live(void)
{
    ro_code code = RO_CODE_OK;
    ro_buf out;
    ro_call *call = ro_call_new(S("srv_read"));
    if (call == NULL) {
        return false;
    }
    ro_buf_init(&out, RO_MAX_STDIN);
    ro_call_note(call, S("srv"), "note");
    bool whole = ro_call_add_entry(call, S("srv"), S(good))
                 && ro_call_open(call, S("srv"), S("{\"a\":1}"))
                 && ro_call_pass(call, S("srv"), S("read"), &out);
    if (whole) {
        ro_call_record_ok(call, S("{\"a\":1}"));
        CHECK(ro_call_outcome(call, &code));
        whole = code == RO_CODE_OK && ro_call_noted(call, S("srv")) != NULL;
        CHECK(code != RO_CODE_OK || ro_call_structured(call).len == 7);
    }
    else {
        CHECK(ro_call_gate(call) != RO_GATE_USED);
    }
    ro_buf_free(&out);
    ro_call_free(call);
    return whole;
}

static void
test_every_allocation_fails_in_turn(void)
{
    size_t live_before = ro_alloc_live();
    size_t nth = 0;
    bool whole = false;
    while (!whole && nth < 200) {
        ro_alloc_fail_at(++nth, 0);
        whole = live();
        whole = whole && ro_alloc_count() < nth;
        ro_alloc_fail_at(0, 0);
        CHECK(ro_alloc_live() == live_before);
    }
    CHECK(whole);
    CHECK(nth > 8);
}

int
main(void)
{
    test_entries_are_kept_by_server();
    test_the_first_note_of_a_server_stays();
    test_only_one_entry_is_judged();
    test_a_list_is_written_from_the_entries();
    test_an_output_schema_is_found();
    test_bytes_are_counted_up_to_the_bound();
    test_the_gate_opens_for_the_owner_alone();
    test_the_gate_needs_the_verdict();
    test_the_gate_lets_one_call_pass();
    test_an_audit_opens_nothing();
    test_many_threads_get_one_pass();
    test_the_first_outcome_stays();
    test_a_success_keeps_what_was_structured();
    test_every_allocation_fails_in_turn();
    return check_end();
}
