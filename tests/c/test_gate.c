#include <pthread.h>

#include "failing.h"
#include "core/limits.h"
#include "mcp/gate.h"

#define S(text) ro_slice_str(text)

static const char good[]
    = "{\"name\":\"read\",\"annotations\":{\"readOnlyHint\":true}}";
static const char bad[]
    = "{\"name\":\"read\",\"annotations\":{\"readOnlyHint\":\"yes\"}}";

/* A gate and what it judges by. */
struct gated {
    ro_discovery *found;
    ro_gate *gate;
};

static struct gated
gated(const char *entry)
{
    struct gated it
        = {ro_discovery_new(S("srv_read")), ro_gate_new(S("srv_read"))};
    CHECK(it.found != NULL && it.gate != NULL);
    CHECK(ro_discovery_add(it.found, S("srv"), S(entry)));
    return it;
}

static void
done(struct gated it)
{
    ro_gate_free(it.gate);
    ro_discovery_free(it.found);
}

static bool
opens(struct gated it, const char *server, const char *arguments)
{
    return ro_gate_open(it.gate, it.found, S(server), S(arguments));
}

static bool
passes(struct gated it, const char *server, const char *name)
{
    ro_buf out;
    ro_buf_init(&out, RO_MAX_STDIN);
    bool passed = ro_gate_pass(it.gate, S(server), S(name), &out);
    CHECK(passed == (out.len != 0));
    ro_buf_free(&out);
    return passed;
}

static void
test_the_gate_opens_for_the_owner_alone(void)
{
    static const char *const servers[]
        = {"", "s", "sr", "srv_", "srv_read", "srv_read_", "SRV", "other"};
    struct gated it = gated(good);
    for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
        CHECK(!opens(it, servers[i], "{}"));
    }
    CHECK(ro_gate_state_of(it.gate) == RO_GATE_CLOSED);
    CHECK(opens(it, "srv", "{}"));
    CHECK(ro_gate_state_of(it.gate) == RO_GATE_OPEN);
    CHECK(!opens(it, "srv", "{}"));
    done(it);
}

static void
test_the_gate_needs_the_verdict(void)
{
    struct gated it = gated(bad);
    CHECK(!opens(it, "srv", "{}"));
    done(it);
    it = gated(good);
    CHECK(ro_discovery_add(it.found, S("srv"), S(good)));
    CHECK(!opens(it, "srv", "{}"));
    CHECK(ro_gate_state_of(it.gate) == RO_GATE_CLOSED);
    done(it);
}

static void
test_the_gate_lets_one_call_pass(void)
{
    static const char *const names[]
        = {"", "rea", "read_", "readd", "Read", "srv_read", "_read"};
    struct gated it = gated(good);
    ro_buf out;
    CHECK(!passes(it, "srv", "read"));
    CHECK(opens(it, "srv", "{ \"a\" : 1.10 }"));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        CHECK(!passes(it, "srv", names[i]));
    }
    CHECK(!passes(it, "other", "read"));
    CHECK(!passes(it, "sr", "v_read"));
    CHECK(!passes(it, "", "srv_read"));
    ro_buf_init(&out, 4); /* refused: too small for the arguments */
    CHECK(!ro_gate_pass(it.gate, S("srv"), S("read"), &out));
    CHECK(ro_gate_state_of(it.gate) == RO_GATE_OPEN);
    ro_buf_init(&out, RO_MAX_STDIN);
    CHECK(ro_gate_pass(it.gate, S("srv"), S("read"), &out));
    CHECK(ro_slice_equal(ro_buf_slice(&out), S("{\"a\":1.10}")));
    ro_buf_free(&out);
    CHECK(ro_gate_state_of(it.gate) == RO_GATE_USED);
    CHECK(!passes(it, "srv", "read"));
    CHECK(!opens(it, "srv", "{}"));
    done(it);
}

/* `a` with `b_c` and `a_b` with `c` have one full name. A gate is for one. */
static void
test_another_owner_of_the_name_does_not_pass(void)
{
    static const char *const owners[][2] = {{"a", "b_c"}, {"a_b", "c"}};
    for (int mine = 0; mine < 2; mine++) {
        struct gated it
            = {ro_discovery_new(S("a_b_c")), ro_gate_new(S("a_b_c"))};
        const char *const *other = owners[1 - mine];
        for (int i = 0; i < 2; i++) {
            CHECK(ro_discovery_add(it.found, S(owners[i][0]), S(good)));
        }
        CHECK(opens(it, owners[mine][0], "{}"));
        CHECK(!passes(it, other[0], other[1]));
        CHECK(!passes(it, owners[mine][0], other[1]));
        CHECK(!passes(it, other[0], owners[mine][1]));
        CHECK(ro_gate_state_of(it.gate) == RO_GATE_OPEN);
        CHECK(passes(it, owners[mine][0], owners[mine][1]));
        done(it);
    }
}

/* No gate (the audit), and one that no tool can pass. */
static void
test_nothing_is_called_without_a_gate(void)
{
    struct gated it = gated(good);
    ro_gate *unused = it.gate;
    ro_gate *gates[] = {NULL, ro_gate_new(S(""))};
    for (size_t i = 0; i < sizeof(gates) / sizeof(gates[0]); i++) {
        it.gate = gates[i];
        CHECK(!opens(it, "srv", "{}"));
        CHECK(!opens(it, "", "{}"));
        CHECK(!passes(it, "srv", "read"));
        CHECK(!passes(it, "", ""));
        CHECK(ro_gate_state_of(it.gate) == RO_GATE_CLOSED);
        ro_gate_free(it.gate);
    }
    it.gate = unused;
    CHECK(opens(it, "srv", "{}"));
    done(it);
}

struct race {
    struct gated it;
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
        race->opened += opens(race->it, "srv", "{}");
        race->passed += ro_gate_pass(race->it.gate, S("srv"), S("read"), &out);
        ro_buf_free(&out);
    }
    return NULL;
}

static void
test_many_threads_get_one_pass(void)
{
    enum { THREADS = 4 };
    struct gated it = gated(good);
    pthread_barrier_t start;
    pthread_t threads[THREADS];
    struct race races[THREADS];
    unsigned opened = 0;
    unsigned passed = 0;
    CHECK(pthread_barrier_init(&start, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++) {
        races[i] = (struct race){it, &start, 0, 0};
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
    done(it);
}

/* ---- memory ---- */

/* The whole life of a gate; false when some part was refused. */
static bool
live(void *ctx)
{
    struct gated it = {ctx, ro_gate_new(S("srv_read"))};
    ro_buf out;
    ro_buf_init(&out, RO_MAX_STDIN);
    bool opened = opens(it, "srv", "{\"a\":1}");
    CHECK(opened == (ro_gate_state_of(it.gate) == RO_GATE_OPEN));
    bool whole = opened && ro_gate_pass(it.gate, S("srv"), S("read"), &out);
    CHECK(whole == (ro_gate_state_of(it.gate) == RO_GATE_USED));
    ro_buf_free(&out);
    ro_gate_free(it.gate);
    return whole;
}

static void
test_every_allocation_fails_in_turn(void)
{
    ro_discovery *found = ro_discovery_new(S("srv_read"));
    CHECK(ro_discovery_add(found, S("srv"), S(good)));
    CHECK(check_failing(live, found) > 4);
    ro_discovery_free(found);
}

int
main(void)
{
    test_the_gate_opens_for_the_owner_alone();
    test_the_gate_needs_the_verdict();
    test_the_gate_lets_one_call_pass();
    test_another_owner_of_the_name_does_not_pass();
    test_nothing_is_called_without_a_gate();
    test_many_threads_get_one_pass();
    test_every_allocation_fails_in_turn();
    return check_end();
}
