#include "failing.h"
#include "mcp/record.h"

#define S(text) ro_slice_str(text)

static void
test_the_first_outcome_stays(void)
{
    ro_code code = RO_CODE_OK;
    ro_record *record = ro_record_new();
    CHECK(!ro_record_outcome(record, &code));
    ro_record_failure(record, RO_CODE_TOOL_FAILED);
    ro_record_success(record, S("{\"a\":1}"));
    ro_record_failure(record, RO_CODE_TIMEOUT);
    CHECK(ro_record_outcome(record, &code) && code == RO_CODE_TOOL_FAILED);
    CHECK(ro_record_structured(record).len == 0);
    ro_record_free(record);
}

static void
test_a_success_keeps_what_was_structured(void)
{
    ro_code code = RO_CODE_TIMEOUT;
    ro_record *record = ro_record_new();
    ro_record_success(record, S("{ \"a\" : 1e2 }"));
    ro_record_failure(record, RO_CODE_TIMEOUT);
    CHECK(ro_record_outcome(record, &code) && code == RO_CODE_OK);
    CHECK(ro_slice_equal(ro_record_structured(record), S("{\"a\":1e2}")));
    ro_record_free(record);
    record = ro_record_new();
    ro_record_success(record, S("7"));
    CHECK(ro_slice_equal(ro_record_structured(record), S("7")));
    ro_record_free(record);
    record = ro_record_new();
    ro_record_success(record, (ro_slice){NULL, 0});
    CHECK(ro_record_outcome(record, &code) && code == RO_CODE_OK);
    CHECK(ro_record_structured(record).len == 0);
    ro_record_free(record);
}

static void
test_without_a_record_nothing_is_kept(void)
{
    ro_code code = RO_CODE_TIMEOUT;
    ro_record_failure(NULL, RO_CODE_TOOL_FAILED);
    ro_record_success(NULL, S("{}"));
    CHECK(!ro_record_outcome(NULL, &code) && code == RO_CODE_TIMEOUT);
    CHECK(ro_record_structured(NULL).len == 0);
    ro_record_free(NULL);
}

/* A success that cannot be kept is a failure; false then. */
static bool
live(void *ctx)
{
    (void)ctx;
    ro_code code = RO_CODE_TIMEOUT;
    ro_record *record = ro_record_new();
    if (record == NULL) {
        return false;
    }
    ro_record_success(record, S("{\"a\":1}"));
    CHECK(ro_record_outcome(record, &code));
    CHECK(code == RO_CODE_OK || code == RO_CODE_RUNTIME_FAILURE);
    CHECK(code != RO_CODE_OK || ro_record_structured(record).len == 7);
    ro_record_free(record);
    return code == RO_CODE_OK;
}

static void
test_every_allocation_fails_in_turn(void)
{
    CHECK(check_failing(live, NULL) > 2);
}

int
main(void)
{
    test_the_first_outcome_stays();
    test_a_success_keeps_what_was_structured();
    test_without_a_record_nothing_is_kept();
    test_every_allocation_fails_in_turn();
    return check_end();
}
