/* A response head, line by line; what libcurl passes on and what it would not.
 */
#include "check.h"
#include "core/alloc.h"
#include "core/limits.h"
#include "failing.h"
#include "net/head.h"
#include "net/header_list.h"

#include <string.h>

#define STATUS "HTTP/1.1 200 OK\r\n"

/* Feeds a text with a line break behind each of its lines. */
static ro_net_code
feed(ro_head_reader *head, const char *text, size_t len, size_t max)
{
    ro_net_code code = RO_NET_OK;
    const char *end = text + len;
    while (code == RO_NET_OK && text < end) {
        const char *next = memchr(text, '\n', (size_t)(end - text));
        next = next == NULL ? end : next + 1;
        code = ro_head_line(head, ro_slice_of(text, (size_t)(next - text)),
                            max);
        text = next;
    }
    return code;
}

static ro_net_code
read_head(const char *text, size_t len, size_t max)
{
    ro_head_reader head = {0};
    ro_net_code code = feed(&head, text, len, max);
    CHECK(code != RO_NET_OK || head.complete);
    ro_head_free(&head);
    return code;
}

static void
test_lines(void)
{
    static const struct {
        const char *text;
        size_t len;
        ro_net_code code;
    } cases[] = {
#define CASE(text, code) {text, sizeof(text) - 1, code}
        CASE(STATUS "\r\n", RO_NET_OK),
        CASE("HTTP/1.0 999\n\n", RO_NET_OK),
        CASE("HTTP/2 200 \r\n\r\n", RO_NET_OK),
        CASE(STATUS "A:\r\n\r\n", RO_NET_OK),
        CASE(STATUS "!#$%&'*+-.^_`|~09azAZ: \t x \t\r\n\r\n", RO_NET_OK),
        CASE(STATUS "A: 1\r\n 2\r\n\r\n", RO_NET_OK),
        /* the status line */
        CASE("\r\n", RO_NET_PROTOCOL),
        CASE("HTTP/1.1", RO_NET_PROTOCOL),
        CASE("HTTP/1.1 ", RO_NET_PROTOCOL),
        CASE("HTTP/1.1 20\r\n", RO_NET_PROTOCOL),
        CASE("HTTP/1.1 20a\r\n", RO_NET_PROTOCOL),
        CASE("HTTP/1.1 2/0\r\n", RO_NET_PROTOCOL),
        CASE("HTTP/1.1 099\r\n", RO_NET_PROTOCOL),
        CASE("HTTP/1.1 2000\r\n", RO_NET_PROTOCOL),
        CASE("HTTP/1.1 200\tOK\r\n", RO_NET_PROTOCOL),
        CASE("HTTP/1.2 200 OK\r\n", RO_NET_PROTOCOL),
        CASE("http/1.1 200 OK\r\n", RO_NET_PROTOCOL),
        CASE("HTTP/3 200\r\n", RO_NET_PROTOCOL),
        CASE("HTTP/1.1 101 Switch\r\n\r\n", RO_NET_PROTOCOL),
        /* fields */
        CASE(STATUS "A\r\n", RO_NET_PROTOCOL),
        CASE(STATUS ":\r\n", RO_NET_PROTOCOL),
        CASE(STATUS "A : 1\r\n", RO_NET_PROTOCOL),
        CASE(STATUS "A(: 1\r\n", RO_NET_PROTOCOL),
        CASE(STATUS "A\x00: 1\r\n", RO_NET_PROTOCOL),
        CASE(STATUS "A\x80: 1\r\n", RO_NET_PROTOCOL),
        CASE(STATUS "A[: 1\r\n", RO_NET_PROTOCOL),
        CASE(STATUS "A{: 1\r\n", RO_NET_PROTOCOL),
        CASE(STATUS "A: 1\r2\r\n", RO_NET_PROTOCOL),
        CASE(STATUS "A: 1\x00\r\n", RO_NET_PROTOCOL),
        /* folds */
        CASE(STATUS " 1\r\n", RO_NET_PROTOCOL),
        CASE(STATUS "Content-Length: 1\r\n 2\r\n", RO_NET_PROTOCOL),
        CASE(STATUS "Transfer-Encoding:\r\n chunked\r\n", RO_NET_PROTOCOL),
        CASE(STATUS "content-encoding: gzip,\r\n\tbr\r\n", RO_NET_PROTOCOL),
#undef CASE
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_net_code code
            = read_head(cases[i].text, cases[i].len, RO_MAX_HEADERS);
        if (code != cases[i].code) {
            fprintf(stderr, "case %zu: %s\n", i, ro_net_code_word(code));
        }
        CHECK(code == cases[i].code);
    }
}

/* No line, and one without its end, are the head so far. */
static void
test_what_is_not_whole(void)
{
    ro_head_reader head = {0};
    ro_head view;
    CHECK(feed(&head, STATUS "A: 1", 21, 100) == RO_NET_OK);
    CHECK(!head.complete);
    CHECK(ro_head_line(&head, ro_slice_of("", 0), 100) == RO_NET_OK);
    CHECK(head.complete);
    ro_head_view(&head, &view);
    CHECK(view.status == 200 && view.version == 11 && view.n_headers == 1);
    CHECK(ro_slice_equal(view.reason, ro_slice_str("OK")));
    CHECK(ro_slice_equal(view.headers[0].value, ro_slice_str("1")));
    ro_head_free(&head);
}

/* Every line counts, those of earlier blocks and trailers as well; the bound
 * itself is within. */
static void
test_the_bound(void)
{
    static const char text[]
        = "HTTP/1.1 103 E\r\nA: 1\r\n\r\n" STATUS "B: 22\r\n 33\r\n\r\n"
          "Trailer: t\r\n";
    size_t len = sizeof(text) - 1;

    CHECK(read_head(text, len, len) == RO_NET_OK);
    for (size_t max = 0; max < len; max++) {
        CHECK(read_head(text, len, max) == RO_NET_HEADERS_TOO_LARGE);
    }
    ro_head_reader head = {0};
    CHECK(ro_head_count(&head, ro_slice_str("12345"), 4)
          == RO_NET_HEADERS_TOO_LARGE);
    CHECK(ro_head_count(&head, ro_slice_str("12345"), 9) == RO_NET_OK);
    CHECK(ro_head_count(&head, ro_slice_str("12345"), 9)
          == RO_NET_HEADERS_TOO_LARGE);
    CHECK(ro_head_count(&head, ro_slice_str("1234"), 9) == RO_NET_OK);
}

static bool
read_many(void *ctx)
{
    static const char text[]
        = STATUS "A: 1\r\n 2\r\nB: 1\r\nC: 1\r\nD: 1\r\nE: 1\r\nF: 1\r\n"
                 "G: 1\r\nH: 1\r\nI: 1\r\nJ: 1\r\nK: 1\r\nL: 1\r\nM: 1\r\n"
                 "N: 1\r\nO: 1\r\nP: 1\r\nQ: 1\r\n"
                 "R: 0123456789012345678901234567890123456789\r\n\r\n";
    (void)ctx;
    ro_net_code code = read_head(text, sizeof(text) - 1, RO_MAX_HEADERS);
    CHECK(code == RO_NET_OK || code == RO_NET_NO_MEMORY);
    return code == RO_NET_OK;
}

/* ---- what the fields say ---- */

static void
test_framing(void)
{
    static const struct {
        const char *name;
        const char *first;
        const char *second; /* or NULL */
        ro_net_code code;
    } cases[] = {
        {"Content-Length", "0", NULL, RO_NET_OK},
        {"content-length", "12", "12", RO_NET_OK},
        {"Content-Length", "9223372036854775807", NULL, RO_NET_OK},
        {"Content-Length", "9223372036854775808", NULL, RO_NET_PROTOCOL},
        {"Content-Length", "999999999999999999", NULL, RO_NET_OK},
        {"Content-Length", "10000000000000000000", NULL, RO_NET_PROTOCOL},
        {"Content-Length", "", NULL, RO_NET_PROTOCOL},
        {"Content-Length", "-1", NULL, RO_NET_PROTOCOL},
        {"Content-Length", "1:", NULL, RO_NET_PROTOCOL},
        {"Content-Length", "1", "2", RO_NET_PROTOCOL},
        {"Content-Length", "1", "01", RO_NET_PROTOCOL},
        {"Transfer-Encoding", "Chunked", NULL, RO_NET_OK},
        {"Transfer-Encoding", "chunked", "chunked", RO_NET_PROTOCOL},
        {"Transfer-Encoding", "gzip", NULL, RO_NET_PROTOCOL},
        {"Transfer-Encoding", "", NULL, RO_NET_PROTOCOL},
        {"Transfer-Encodin", "gzip", "gzip", RO_NET_OK},
        {"Content-Lengths", "x", "y", RO_NET_OK},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool two = cases[i].second != NULL;
        ro_header fields[2] = {
            {ro_slice_str(cases[i].name), ro_slice_str(cases[i].first)},
            {ro_slice_str(cases[i].name),
             ro_slice_str(two ? cases[i].second : "")},
        };
        ro_head_reader head = {.fields = fields, .n_fields = two ? 2 : 1};
        CHECK(ro_head_check(&head, 0, false) == cases[i].code);
        CHECK(ro_head_check(&head, 0, true) == cases[i].code);
    }
}

static void
test_offered_codings(void)
{
    enum {
        GZIP = RO_CODING_GZIP,
        DEFLATE = RO_CODING_DEFLATE,
        BR = RO_CODING_BR,
        ZSTD = RO_CODING_ZSTD,
        ANY = RO_CODING_ANY,
    };
    static const struct {
        const char *accept;
        unsigned codings;
    } cases[] = {
        {"", 0},
        {",", 0},
        {"gzip", GZIP},
        {"X-Gzip", GZIP},
        {"gzip,deflate, br ,\tzstd", GZIP | DEFLATE | BR | ZSTD},
        {"*", ANY},
        {"identity", 0},
        {"gzip;q=1", GZIP},
        {"gzip ; q=0.001", GZIP},
        {"gzip;q=0", 0},
        {"gzip; Q=0.000", 0},
        {"gzip;q=", GZIP},
        {"gzip;p=0", GZIP},
        {"gzip;q:0", GZIP},
        {"gzip;q", GZIP},
        {"gzip;", GZIP},
        {"*, gzip;q=0", DEFLATE | BR | ZSTD},
        {"gzip;q=0, *", DEFLATE | BR | ZSTD},
        {"gzip, *;q=0", GZIP},
        {"x;q=0, br", BR},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK(ro_codings_of(ro_slice_str(cases[i].accept))
              == cases[i].codings);
    }
}

/* ---- lists of headers ---- */

static bool
fill_list(void *ctx)
{
    ro_header_list list = {NULL, 0, 0};
    ro_header items[40];
    (void)ctx;
    for (size_t i = 0; i < 40; i++) {
        items[i] = (ro_header){ro_slice_str(i % 2 == 0 ? "a" : ""),
                               ro_slice_str(i % 3 == 0 ? "" : "v")};
    }
    bool whole = ro_header_list_copy(&list, items, 40);
    CHECK(list.count == (whole ? 40 : 0));
    if (whole) {
        size_t before = list.count;
        whole = ro_header_list_set(&list, ro_slice_str("A"),
                                   ro_slice_str("new"));
        CHECK(list.count == (whole ? 21 : before));
        CHECK(ro_header_count(list.items, list.count, "a")
              == (whole ? 1 : 20));
    }
    ro_header_list_free(&list);
    return whole;
}

int
main(void)
{
    test_lines();
    test_what_is_not_whole();
    test_the_bound();
    CHECK(check_failing(read_many, NULL) > 3);
    test_framing();
    test_offered_codings();
    CHECK(check_failing(fill_list, NULL) > 40);
    CHECK(ro_alloc_live() == 0);
    return check_end();
}
