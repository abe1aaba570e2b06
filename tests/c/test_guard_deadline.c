/* The schedule, on a clock that the test moves. */
#include "check.h"

#include "guard/deadline.h"
#include "guard/guard.h"

#define START 1000000

static ro_deadlines
make(void)
{
    ro_deadlines queue;
    ro_deadlines_init(&queue, START, 15000, 3000);
    return queue;
}

static void
test_order(void)
{
    ro_deadlines queue = make();
    CHECK(ro_deadlines_wait(&queue, START) == 15000);
    CHECK(ro_deadlines_left(&queue, START) == 15000);
    CHECK(ro_deadlines_take(&queue, START + 14999) == RO_DUE_COUNT);
    CHECK(ro_deadlines_left(&queue, START + 14999) == 1);
    CHECK(ro_deadlines_wait(&queue, START + 15000) == 0);
    CHECK(ro_deadlines_take(&queue, START + 15000) == RO_DUE_CANCEL);
    CHECK(ro_deadlines_take(&queue, START + 15000) == RO_DUE_COUNT);
    CHECK(ro_deadlines_left(&queue, START + 15001) == 0);
    CHECK(ro_deadlines_wait(&queue, START + 15000) == 3000);
    CHECK(ro_deadlines_take(&queue, START + 18000) == RO_DUE_END);
    CHECK(ro_deadlines_wait(&queue, START + 18000) == RO_GUARD_TAKEOVER_MS);
    int64_t takeover = START + 18000 + RO_GUARD_TAKEOVER_MS;
    CHECK(ro_deadlines_take(&queue, takeover - 1) == RO_DUE_COUNT);
    CHECK(ro_deadlines_take(&queue, takeover) == RO_DUE_TAKEOVER);
    int64_t last = START + 18000 + RO_GUARD_END_MS;
    CHECK(ro_deadlines_take(&queue, last - 1) == RO_DUE_COUNT);
    CHECK(ro_deadlines_take(&queue, last) == RO_DUE_LAST);
    CHECK(ro_deadlines_take(&queue, INT64_MAX - 1) == RO_DUE_COUNT);
    CHECK(ro_deadlines_wait(&queue, last) == -1);
    CHECK(RO_GUARD_END_MS <= 500);
}

/* A process that was stopped, or a machine that was: there is still time to
 * write after the end that it slept through. */
static void
test_pause(void)
{
    ro_deadlines queue = make();
    int64_t now = START + 3600000;
    CHECK(ro_deadlines_take(&queue, now) == RO_DUE_CANCEL);
    CHECK(ro_deadlines_take(&queue, now) == RO_DUE_END);
    CHECK(queue.end == now);
    CHECK(ro_deadlines_take(&queue, now) == RO_DUE_COUNT);
    CHECK(ro_deadlines_wait(&queue, now) == RO_GUARD_TAKEOVER_MS);
}

static void
test_lower(void)
{
    ro_deadlines queue = make();
    CHECK(ro_deadlines_lower(&queue, START, 0)); /* at once */
    CHECK(ro_deadlines_left(&queue, START) == 0);
    CHECK(ro_deadlines_wait(&queue, START) == 0);
    /* up to the deadline itself, taken or not */
    queue = make();
    CHECK(!ro_deadlines_lower(&queue, START + 15000, 100));
    CHECK(ro_deadlines_lower(&queue, START + 14999, 100));
    queue = make();
    CHECK(!ro_deadlines_lower(&queue, START, 15000));
    CHECK(!ro_deadlines_lower(&queue, START, 16000));
    CHECK(!ro_deadlines_lower(&queue, START, -1));
    CHECK(ro_deadlines_left(&queue, START) == 15000);
    CHECK(ro_deadlines_lower(&queue, START + 10, 2000));
    CHECK(ro_deadlines_wait(&queue, START + 10) == 1990);
    CHECK(!ro_deadlines_lower(&queue, START + 10, 2000));
    CHECK(!ro_deadlines_lower(&queue, START + 10, 2001));
    /* into the past: due at once, the end keeps its distance */
    CHECK(ro_deadlines_lower(&queue, START + 500, 100));
    CHECK(ro_deadlines_left(&queue, START + 500) == 0);
    CHECK(ro_deadlines_take(&queue, START + 500) == RO_DUE_CANCEL);
    CHECK(ro_deadlines_wait(&queue, START + 500) == 2600);
    /* what came does not come again */
    CHECK(!ro_deadlines_lower(&queue, START + 500, 50));
    CHECK(ro_deadlines_take(&queue, START + 3099) == RO_DUE_COUNT);
    CHECK(ro_deadlines_take(&queue, START + 3100) == RO_DUE_END);
}

static void
test_hook(void)
{
    ro_deadlines queue = make();
    CHECK(ro_deadlines_take(&queue, START + 1000) == RO_DUE_COUNT);
    /* what is due at one time comes in the order of the list */
    ro_deadlines_put(&queue, RO_DUE_HOOK, START + 15000);
    CHECK(ro_deadlines_take(&queue, START + 15000) == RO_DUE_CANCEL);
    CHECK(ro_deadlines_take(&queue, START + 15000) == RO_DUE_HOOK);
    queue = make();
    ro_deadlines_put(&queue, RO_DUE_HOOK, START + 1500);
    CHECK(ro_deadlines_wait(&queue, START + 1000) == 500);
    CHECK(ro_deadlines_take(&queue, START + 1500) == RO_DUE_HOOK);
    CHECK(ro_deadlines_take(&queue, START + 1500) == RO_DUE_COUNT);
    CHECK(ro_deadlines_wait(&queue, START + 1500) == 13500);
}

static void
test_far(void)
{
    ro_deadlines queue;
    ro_deadlines_init(&queue, 0, INT32_MAX, INT32_MAX);
    CHECK(ro_deadlines_wait(&queue, -1000) == INT32_MAX);
    CHECK(ro_deadlines_left(&queue, -1000) == INT32_MAX);
}

static void
test_parse(void)
{
    static const struct {
        const char *text;
        int ms;
    } cases[] = {
        {"100", 100},       {"15000", 15000},
        {"101", 101},       {"14999", 14999},
        {"2500", 2500},     {"99", -1},
        {"-1", -1},         {"x", -1},
        {"100ms", -1},      {"15001", -1},
        {"0", -1},          {"", -1},
        {"0100", -1},       {"00100", -1},
        {"+100", -1},       {"-100", -1},
        {" 100", -1},       {"100 ", -1},
        {"100\n", -1},      {"1e3", -1},
        {"100.0", -1},      {"1_000", -1},
        {"0x100", -1},      {"99999999999999999999", -1},
        {"4294967396", -1}, {"\xd9\xa1\xd9\xa0\xd9\xa0", -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK(ro_guard_parse_deadline(cases[i].text) == cases[i].ms);
    }
}

int
main(void)
{
    test_order();
    test_pause();
    test_lower();
    test_hook();
    test_far();
    test_parse();
    return check_end();
}
