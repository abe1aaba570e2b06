/* Reducing a tools/list answer, and the cursors that were seen. */
#include "check.h"

#include "core/alloc.h"
#include "core/json.h"
#include "mcp/reduce.h"
#include "mcp/toollist.h"

#define PAGE(result) "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":" result "}"
#define TOOLS(entries) PAGE("{\"tools\":[" entries "]}")

typedef struct seen {
    size_t count;
    size_t stop_at; /* 0 never */
    char last[256];
} seen;

static bool
see(void *arg, ro_slice entry)
{
    seen *to = arg;
    to->count++;
    CHECK(entry.len < sizeof(to->last));
    memcpy(to->last, entry.ptr, entry.len);
    to->last[entry.len] = '\0';
    return to->count != to->stop_at;
}

static ro_list_code
reduce_with(const char *message, const char *tool, seen *to, ro_list *list,
            ro_buf *out)
{
    const ro_json_limits limits = {1u << 20, 64, true};
    const ro_list_query query = {
        .prefix = ro_slice_str("s_"),
        .tool = ro_slice_str(tool),
        .entry = see,
        .arg = to,
    };
    ro_slice bytes = ro_slice_str(message);
    CHECK(ro_json_validate(bytes, &limits, NULL) == RO_JSON_OK);
    return ro_list_reduce(bytes, &query, list, out);
}

static ro_list_code
code_of(const char *message)
{
    seen to = {0, 0, ""};
    ro_list list;
    ro_buf out;
    ro_buf_init(&out, 4096);
    ro_list_code code = reduce_with(message, "s_t", &to, &list, &out);
    if (code != RO_LIST_OK) {
        CHECK(out.len == 0 && to.count == 0 && list.id.len == 0);
    }
    ro_buf_free(&out);
    return code;
}

/* Whether tool's page is `want` with so many entries kept. */
static bool
reduces(const char *message, const char *tool, size_t kept, const char *want)
{
    seen to = {0, 0, ""};
    ro_list list;
    ro_buf out;
    ro_buf_init(&out, 4096);
    bool good = reduce_with(message, tool, &to, &list, &out) == RO_LIST_OK
                && list.kept == kept && to.count == kept
                && ro_slice_equal(list.id, ro_slice_str("3"))
                && ro_slice_equal(ro_buf_slice(&out), ro_slice_str(want));
    if (!good) {
        fprintf(stderr, "got %.*s\n", (int)out.len, out.data);
    }
    ro_buf_free(&out);
    return good;
}

static void
test_keeps(void)
{
    CHECK(reduces(TOOLS(""), "s_t", 0, TOOLS("")));
    CHECK(reduces(TOOLS(" { \"name\" : \"t\" , \"x\" : 1.10 } "), "s_t", 1,
                  TOOLS("{\"name\":\"t\"}")));
    CHECK(reduces(TOOLS("{\"name\":\"a\"},{\"name\":\"t\"},{\"name\":\"b\"}"),
                  "s_t", 1, TOOLS("{\"name\":\"t\"}")));
    /* twice, alike or not: the caller sees both */
    CHECK(reduces(TOOLS("{\"name\":\"t\"},{\"name\":\"t\"}"), "s_t", 2,
                  TOOLS("{\"name\":\"t\"},{\"name\":\"t\"}")));
    CHECK(reduces(TOOLS("{\"name\":\"\\u0074\",\"x\":1}"), "s_t", 1,
                  TOOLS("{\"name\":\"\\u0074\"}")));
    /* the last member counts */
    CHECK(reduces(TOOLS("{\"name\":\"t\",\"name\":\"u\"},"
                        "{\"name\":\"u\",\"nam\\u0065\":\"t\"}"),
                  "s_t", 1, TOOLS("{\"name\":\"t\"}")));
    /* what is no string has no text, not even an empty one */
    CHECK(reduces(TOOLS("{\"name\":1},{\"name\":[]},{\"name\":{}},"
                        "{\"name\":true}"),
                  "s_", 0, TOOLS("")));
    /* near misses */
    CHECK(reduces(TOOLS("{\"name\":\"T\"},{\"name\":\"t \"},{\"name\":\"\"},"
                        "{\"name\":\"s_t\"},{\"name\":\"t\\u0000\"},"
                        "{\"name\":[\"t\"]},{\"name\":null},{\"Name\":\"t\"},"
                        "{},{\"x\":{\"name\":\"t\"}}"),
                  "s_t", 0, TOOLS("")));
    CHECK(
        reduces(TOOLS("{\"name\":\"\"}"), "s_", 1, TOOLS("{\"name\":\"\"}")));
    CHECK(reduces(TOOLS("{\"name\":\"t\"}"), "s", 0, TOOLS("")));
    CHECK(reduces(TOOLS("{\"name\":\"t\"}"), "x_t", 0, TOOLS("")));
    CHECK(reduces(TOOLS("5,\"t\",null,[{\"name\":\"t\"}],{\"name\":\"t\"}"),
                  "s_t", 1, TOOLS("{\"name\":\"t\"}")));
    /* a poisoned sibling hides nothing */
    CHECK(reduces(TOOLS("{\"name\":5,\"title\":5,\"inputSchema\":null},"
                        "{\"name\":\"t\"}"),
                  "s_t", 1, TOOLS("{\"name\":\"t\"}")));
    /* every object */
    CHECK(reduces(TOOLS("{\"name\":\"a\"},5,{},{\"name\":null}"), "", 3,
                  TOOLS("{\"name\":\"a\"},{},{\"name\":null}")));
}

static void
test_members(void)
{
    CHECK(reduces(PAGE("{\"_meta\":{},\"tools\":[],\"x\":1,"
                       "\"nextCursor\":\"\\u0061\"}"),
                  "s_t", 0,
                  PAGE("{\"tools\":[],\"nextCursor\":\"\\u0061\"}")));
    CHECK(reduces(PAGE("{\"nextCursor\":null,\"tools\":[]}"), "s_t", 0,
                  PAGE("{\"tools\":[],\"nextCursor\":null}")));
    CHECK(reduces(PAGE("{\"nextCursor\":5,\"tools\":[]}"), "s_t", 0,
                  PAGE("{\"tools\":[],\"nextCursor\":0}")));
    CHECK(reduces(PAGE("{\"nextCursor\":{\"a\":[1]},\"tools\":[]}"), "s_t", 0,
                  PAGE("{\"tools\":[],\"nextCursor\":{}}")));
    CHECK(reduces(" { \"id\" : 3 , \"jsonrpc\" : \"2.0\" , \"extra\" : 1 ,"
                  " \"result\" : { \"tools\" : [ ] } } ",
                  "s_t", 0, TOOLS("")));
}

static void
test_refusals(void)
{
    CHECK(code_of(TOOLS("")) == RO_LIST_OK);
    CHECK(code_of("[]") == RO_LIST_MALFORMED);
    CHECK(code_of("{}") == RO_LIST_MALFORMED);
    CHECK(code_of("{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":1,"
                  "\"message\":\"m\"}}")
          == RO_LIST_MALFORMED);
    CHECK(code_of(PAGE("null")) == RO_LIST_MALFORMED);
    CHECK(code_of(PAGE("[]")) == RO_LIST_MALFORMED);
    CHECK(code_of(PAGE("{}")) == RO_LIST_MALFORMED);
    CHECK(code_of(PAGE("{\"tools\":null}")) == RO_LIST_MALFORMED);
    CHECK(code_of(PAGE("{\"tools\":{}}")) == RO_LIST_MALFORMED);
    CHECK(code_of(PAGE("{\"tools\":[],\"tools\":[]}")) == RO_LIST_MALFORMED);
    CHECK(code_of(PAGE("{\"tools\":[],\"t\\u006fols\":[]}"))
          == RO_LIST_MALFORMED);
    CHECK(code_of(PAGE("{\"tools\":[],\"nextCursor\":\"a\","
                       "\"nextCursor\":\"a\"}"))
          == RO_LIST_MALFORMED);
    CHECK(code_of("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"tools\":[]},"
                  "\"result\":{\"tools\":[]}}")
          == RO_LIST_MALFORMED);
}

/* A list with one entry of so many levels, behind another; whether the
 * scanner passes it with RO_LIST_EXTRA_DEPTH levels more than `bound`. */
static bool
is_passed(unsigned levels, unsigned bound, const char *name)
{
    char message[512];
    char open[128] = "";
    char close[128] = "";
    for (unsigned i = 1; i < levels; i++) {
        strcat(open, "[");
        strcat(close, "]");
    }
    snprintf(message, sizeof(message), TOOLS("{\"name\":\"%s\"},{\"a\":%s%s}"),
             name, levels == 1 ? "1" : open, close);
    const ro_json_limits limits
        = {sizeof(message), bound + RO_LIST_EXTRA_DEPTH, true};
    ro_json_code code = ro_json_validate(ro_slice_str(message), &limits, NULL);
    CHECK(code == RO_JSON_OK || code == RO_JSON_DEPTH);
    return code == RO_JSON_OK;
}

/* The depth of an entry, kept or not, needs no look of its own. */
static void
test_the_scanner_bounds_the_depth_of_each_entry(void)
{
    static const unsigned bounds[] = {1, 2, 5, RO_MAX_DEPTH};
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        for (unsigned levels = 1; levels < bounds[i] + 3; levels++) {
            bool within = levels <= bounds[i];
            CHECK(is_passed(levels, bounds[i], "t") == within);
            CHECK(is_passed(levels, bounds[i], "[{\\\"[{") == within);
        }
    }
}

static void
test_list(void)
{
    seen to = {0, 0, ""};
    ro_list list;
    ro_buf out;
    ro_buf_init(&out, 4096);
    const char *message = PAGE("{\"tools\":[5,{\"name\":\"t\"},"
                               "{\"name\":\"u\"}],\"nextCursor\":\"n\"}");
    CHECK(reduce_with(message, "s_t", &to, &list, &out) == RO_LIST_OK);
    CHECK(list.entries == 3 && list.kept == 1 && list.not_objects == 1);
    CHECK(ro_slice_equal(list.next_cursor, ro_slice_str("\"n\"")));
    CHECK(strcmp(to.last, "{\"name\":\"t\"}") == 0);
    /* what was in the buffer stays */
    size_t len = out.len;
    to.count = 0;
    to.stop_at = 1;
    CHECK(reduce_with(message, "", &to, &list, &out) == RO_LIST_STOPPED);
    CHECK(out.len == len && to.count == 1 && list.kept == 0);
    const char *const no_page[] = {"\"\"", "null", "7", "[\"a\"]"};
    for (size_t i = 0; i < sizeof(no_page) / sizeof(no_page[0]); i++) {
        char text[128];
        (void)snprintf(text, sizeof(text),
                       PAGE("{\"tools\":[],\"nextCursor\":%s}"), no_page[i]);
        CHECK(reduce_with(text, "", &to, &list, &out) == RO_LIST_OK);
        CHECK(list.next_cursor.len == 0);
    }
    ro_buf_free(&out);
    ro_buf_init(&out, 60);
    to.stop_at = 0;
    CHECK(reduce_with(message, "", &to, &list, &out) == RO_LIST_TOO_LARGE);
    CHECK(out.len == 0);
    ro_buf_free(&out);
    const ro_list_query no_callback = {
        .tool = ro_slice_str("t"),
    };
    ro_buf_init(&out, 4096);
    CHECK(ro_list_reduce(ro_slice_str(message), &no_callback, &list, &out)
          == RO_LIST_OK);
    CHECK(list.kept == 1);
    ro_buf_free(&out);
}

/* What must not go up: the page's end for a call, left out of an audit. */
static void
test_bounds(void)
{
    ro_budget budget = {7, 1000};
    ro_list_query query = {
        .prefix = ro_slice_str("s_"),
        .tool = ro_slice_str("s_t"),
        .budget = &budget,
    };
    const ro_slice two = ro_slice_str(
        TOOLS("{\"name\":\"t\",\"title\":5,\"x\":[1,2,3]},{\"name\":\"t\"}"));
    ro_list list;
    ro_buf out;
    ro_buf_init(&out, 1u << 20);
    /* 5 values and keys, then 3 */
    CHECK(ro_list_reduce(two, &query, &list, &out) == RO_LIST_ENTRY_TOO_LARGE);
    CHECK(out.len == 0 && list.kept == 0);
    budget = (ro_budget){8, 1000};
    CHECK(ro_list_reduce(two, &query, &list, &out) == RO_LIST_OK);
    CHECK(list.kept == 2 && budget.values == 0);
    ro_buf_clear(&out);
    /* a page more: the budget is the session's */
    CHECK(ro_list_reduce(two, &query, &list, &out) == RO_LIST_ENTRY_TOO_LARGE);
    budget = ro_reduce_budget();
    query.max_kept = 1;
    CHECK(ro_list_reduce(two, &query, &list, &out) == RO_LIST_OK);
    CHECK(list.kept == 2);
    CHECK(ro_slice_equal(ro_buf_slice(&out),
                         ro_slice_str(TOOLS("{\"name\":\"t\",\"title\":5}"))));
    ro_buf_clear(&out);
    static char long_number[RO_MAX_NUMBER + 256];
    char digits[RO_MAX_NUMBER + 2];
    memset(digits, '7', RO_MAX_NUMBER + 1);
    digits[RO_MAX_NUMBER + 1] = '\0';
    (void)snprintf(long_number, sizeof(long_number),
                   TOOLS("{\"name\":\"u\",\"x\":%s},{\"name\":\"t\"}"),
                   digits);
    const ro_slice sibling = ro_slice_str(long_number);
    CHECK(ro_list_reduce(sibling, &query, &list, &out) == RO_LIST_OK);
    CHECK(list.kept == 1);
    ro_buf_clear(&out);
    query.tool = ro_slice_str("s_u");
    CHECK(ro_list_reduce(sibling, &query, &list, &out) == RO_LIST_UNREADABLE);
    query.tool = ro_slice_of(NULL, 0);
    query.budget = NULL;
    query.max_kept = 0;
    CHECK(ro_list_reduce(sibling, &query, &list, &out) == RO_LIST_OK);
    CHECK(list.kept == 2);
    CHECK(ro_slice_equal(ro_buf_slice(&out),
                         ro_slice_str(TOOLS("{\"name\":\"t\"}"))));
    ro_buf_free(&out);
}

/* An entry that is refused when a part of it is written already leaves no
 * trace in an audit's list. */
static void
test_no_trace_of_what_is_refused(void)
{
    static char message[4 * RO_MAX_UP_VALUES];
    const ro_list_query query = {.prefix = {NULL, 0}};
    ro_list list;
    ro_buf out;
    size_t len = (size_t)snprintf(
        message, sizeof(message), "%s",
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"tools\":["
        "{\"name\":\"u\",\"title\":[0");
    for (size_t i = 0; i < RO_MAX_UP_VALUES; i++) {
        message[len++] = ',';
        message[len++] = '0';
    }
    (void)snprintf(message + len, sizeof(message) - len, "%s",
                   "]},{\"name\":\"t\"}]}}");
    ro_buf_init(&out, 1u << 20);
    CHECK(ro_list_reduce(ro_slice_str(message), &query, &list, &out)
          == RO_LIST_OK);
    CHECK(list.kept == 2);
    CHECK(ro_slice_equal(ro_buf_slice(&out),
                         ro_slice_str(TOOLS("{\"name\":\"t\"}"))));
    ro_buf_free(&out);
}

static void
test_long_cursors(void)
{
    static char page[RO_MAX_CURSOR + 128];
    static char cursor[RO_MAX_CURSOR];
    const ro_list_query query = {.prefix = {NULL, 0}};
    ro_list list;
    ro_buf out;
    ro_buf_init(&out, 1u << 20);
    for (size_t over = 0; over < 2; over++) {
        size_t len = RO_MAX_CURSOR - 2 + over; /* its quotes count */
        memset(cursor, 'c', len);
        cursor[len] = '\0';
        (void)snprintf(page, sizeof(page),
                       PAGE("{\"tools\":[],\"nextCursor\":\"%s\"}"), cursor);
        CHECK(ro_list_reduce(ro_slice_str(page), &query, &list, &out)
              == (over ? RO_LIST_CURSOR_TOO_LARGE : RO_LIST_OK));
    }
    ro_buf_free(&out);
}

/* The cursor in a block of its exact size, so that a sanitizer sees one byte
 * over. */
static ro_cursor_code
add(ro_cursors *cursors, const char *raw)
{
    size_t len = strlen(raw);
    char *exact = malloc(len);
    if (exact == NULL) {
        abort();
    }
    memcpy(exact, raw, len);
    ro_cursor_code code = ro_cursors_add(cursors, ro_slice_of(exact, len));
    free(exact);
    return code;
}

static void
test_cursors(void)
{
    ro_cursors cursors = {.count = 0};
    CHECK(add(&cursors, "\"a\"") == RO_CURSOR_NEW);
    CHECK(add(&cursors, "\"b\"") == RO_CURSOR_NEW);
    CHECK(add(&cursors, "\"ab\"") == RO_CURSOR_NEW);
    CHECK(add(&cursors, "\"a\\u0000\"") == RO_CURSOR_NEW);
    CHECK(add(&cursors, "\"\"") == RO_CURSOR_NEW);
    CHECK(add(&cursors, "\"a\"") == RO_CURSOR_REPEATED);
    CHECK(add(&cursors, "\"\\u0061\"") == RO_CURSOR_REPEATED);
    CHECK(add(&cursors, "\"\xc3\xa4\"") == RO_CURSOR_NEW);
    CHECK(add(&cursors, "\"\\u00E4\"") == RO_CURSOR_REPEATED);
    /* Both halves of the hash count: these two share the FNV-1a half. */
    CHECK(add(&cursors, "\"8yn0iYCKYHlIj4-BwPqk\"") == RO_CURSOR_NEW);
    CHECK(add(&cursors, "\"GReLUrM4wMqfg9yzV3KQ\"") == RO_CURSOR_NEW);
    for (unsigned i = (unsigned)cursors.count; i < RO_MAX_PAGES; i++) {
        char raw[16];
        (void)snprintf(raw, sizeof(raw), "\"page-%u\"", i);
        CHECK(add(&cursors, raw) == RO_CURSOR_NEW);
    }
    CHECK(add(&cursors, "\"z\"") == RO_CURSOR_TOO_MANY);
    CHECK(add(&cursors, "\"a\"") == RO_CURSOR_REPEATED);
    CHECK(cursors.count == RO_MAX_PAGES);
}

#ifdef RO_TEST_ALLOC
static void
test_no_memory(void)
{
    const ro_slice message
        = ro_slice_str(PAGE("{\"tools\":[{\"name\":\"t\"},{\"name\":\"u\"}],"
                            "\"nextCursor\":\"n\"}"));
    const ro_list_query query = {.prefix = {NULL, 0}};
    size_t live = ro_alloc_live();
    size_t nth = 0;
    bool done = false;
    while (!done && nth < 100) {
        ro_list list;
        ro_buf out;
        ro_buf_init(&out, 4096);
        ro_alloc_fail_at(++nth, 0);
        ro_list_code code = ro_list_reduce(message, &query, &list, &out);
        done = ro_alloc_count() < nth;
        CHECK(code == (done ? RO_LIST_OK : RO_LIST_NO_MEMORY));
        CHECK(done == (out.len > 0));
        ro_buf_free(&out);
        CHECK(ro_alloc_live() == live);
    }
    CHECK(done && nth > 1);
    ro_alloc_fail_at(0, 0);
}
#endif

int
main(void)
{
    test_keeps();
    test_members();
    test_refusals();
    test_the_scanner_bounds_the_depth_of_each_entry();
    test_list();
    test_bounds();
    test_no_trace_of_what_is_refused();
    test_long_cursors();
    test_cursors();
#ifdef RO_TEST_ALLOC
    test_no_memory();
#endif
    return check_end();
}
