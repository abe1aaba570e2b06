/* The compiled set of secrets against a search that looks everywhere. */
#include "core/alloc.h"
#include "core/base64.h"
#include "core/percent.h"
#include "core/secrets.h"
#include "core/view.h"

#include "check.h"

#include <time.h>

static const ro_secrets_limits limits = {
    .min_len = 8,
    .max_len = 1024 * 1024,
    .max_count = 512,
};

static ro_secrets *
compile(const char *const *texts, size_t count)
{
    ro_slice values[8];
    ro_secrets *secrets = NULL;
    for (size_t i = 0; i < count; i++) {
        values[i] = ro_slice_str(texts[i]);
    }
    CHECK(ro_secrets_new(values, count, &limits, &secrets) == RO_SECRETS_OK);
    return secrets;
}

/* What a search covers, as a string of '.' and 'x'. */
typedef struct cover {
    char at[4096];
    size_t calls;
} cover;

static void
paint(void *context, size_t first, size_t end)
{
    cover *c = context;
    c->calls++;
    for (size_t i = first; i < end && i < sizeof(c->at); i++) {
        c->at[i] = 'x';
    }
}

static cover
search(const ro_secrets *secrets, ro_secrets_form form, ro_slice text)
{
    ro_secrets_scratch scratch = {0};
    cover c = {.calls = 0};
    /* An exact copy, so that a sanitizer sees a read behind it. */
    char *exact = malloc(text.len ? text.len : 1);
    if (exact == NULL) {
        abort();
    }
    if (text.len > 0) {
        memcpy(exact, text.ptr, text.len);
    }
    memset(c.at, '.', sizeof(c.at));
    CHECK(ro_secrets_search(secrets, form, ro_slice_of(exact, text.len),
                            &scratch, paint, &c));
    free(exact);
    ro_secrets_scratch_free(&scratch);
    return c;
}

static bool
covers(const ro_secrets *secrets, ro_secrets_form form, const char *text,
       const char *expected)
{
    size_t len = strlen(text);
    cover c = search(secrets, form, ro_slice_of(text, len));
    bool same = strlen(expected) == len && memcmp(c.at, expected, len) == 0;
    if (!same) {
        fprintf(stderr, "  %s\n  %.*s\n", text, (int)len, c.at);
    }
    return same;
}

static void
check_compile(void)
{
    static const char *const texts[]
        = {"seven77", "eightby8", "eightby8", "a longer secret", ""};
    ro_secrets *secrets = compile(texts, 5);
    ro_slice values[2];
    ro_secrets_limits few = limits;

    CHECK(covers(secrets, RO_SECRETS_TEXT, "an eightby8 seven77 eightby",
                 "...xxxxxxxx................"));
    CHECK(covers(secrets, RO_SECRETS_TEXT, "a+longer+secret",
                 "xxxxxxxxxxxxxxx"));
    ro_secrets_free(secrets);
    ro_secrets_free(NULL);

    secrets = compile(texts, 0);
    CHECK(covers(secrets, RO_SECRETS_TEXT, "eightby8", "........"));
    CHECK(search(secrets, RO_SECRETS_TEXT, ro_slice_of(NULL, 0)).calls == 0);
    ro_secrets_free(secrets);
    CHECK(search(NULL, RO_SECRETS_TEXT, ro_slice_str("eightby8")).calls == 0);

    few.max_count = 1;
    values[0] = ro_slice_str("eightby8");
    values[1] = ro_slice_str("eightby8");
    CHECK(ro_secrets_new(values, 2, &few, &secrets) == RO_SECRETS_OK);
    ro_secrets_free(secrets);
    values[1] = ro_slice_str("eightby9");
    CHECK(ro_secrets_new(values, 2, &few, &secrets) == RO_SECRETS_TOO_MANY);
    CHECK(secrets == NULL);
    few.max_len = 7;
    CHECK(ro_secrets_new(values, 2, &few, &secrets) == RO_SECRETS_TOO_LONG);
    CHECK(secrets == NULL);
    /* The configured minimum may be higher than the pattern's. */
    few = limits;
    few.min_len = 9;
    CHECK(ro_secrets_new(values, 2, &few, &secrets) == RO_SECRETS_OK);
    CHECK(covers(secrets, RO_SECRETS_TEXT, "eightby8", "........"));
    ro_secrets_free(secrets);
}

static void
check_text(void)
{
    static const char *const texts[]
        = {"aaaaaaaab", "aaaaaaaa", "Bearer aaaaaaaab", "p%40ss%2Bword"};
    ro_secrets *secrets = compile(texts, 4);
    CHECK(covers(secrets, RO_SECRETS_TEXT, "caaaaaaab", "........."));
    CHECK(covers(secrets, RO_SECRETS_TEXT, "aaaaaaaaaaaab", "xxxxxxxxxxxxx"));
    CHECK(covers(secrets, RO_SECRETS_TEXT, "bearer aaaaaaaab",
                 ".......xxxxxxxxx"));
    CHECK(covers(secrets, RO_SECRETS_TEXT, "Bearer aaaaaaaabb",
                 "xxxxxxxxxxxxxxxx."));
    /* Decoded it has eight bytes, which is enough, or seven. */
    static const char *const short_ones[] = {"a%41bcdefg", "b%42bcdef"};
    ro_secrets *decoded = compile(short_ones, 2);
    CHECK(covers(decoded, RO_SECRETS_TEXT, "aAbcdefg bBbcdef b%42bcdef",
                 "xxxxxxxx.........xxxxxxxxx"));
    ro_secrets_free(decoded);
    /* With percent signs of its own: as it is, and fully decoded. */
    CHECK(covers(secrets, RO_SECRETS_TEXT, "p%40ss%2Bword p@ss+word",
                 "xxxxxxxxxxxxx.xxxxxxxxx"));
    ro_secrets_free(secrets);
}

/* The base64 of before + secret + behind, by hand; returns its length. */
static size_t
encode(const char *bytes, size_t len, char *out)
{
    size_t used = ro_base64_core_of(ro_slice_of(bytes, len), 0, out).len;
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789+/";
    if (len % 3 == 1) {
        out[used++] = digits[((unsigned char)bytes[len - 1] & 3) << 4];
        out[used++] = '=';
        out[used++] = '=';
    }
    else if (len % 3 == 2) {
        out[used++] = digits[((unsigned char)bytes[len - 1] & 15) << 2];
        out[used++] = '=';
    }
    return used;
}

static void
check_base64(void)
{
    static const char *const texts[] = {"s3cret-value"};
    static const char *const longer[] = {"s3cret-value!", "0123456789abcd"};
    ro_secrets *secrets = compile(texts, 1);
    ro_secrets *others = compile(longer, 2);
    char out[64];

    for (int c = 0; c < 256; c++) {
        bool digit = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')
                     || (c >= '0' && c <= '9') || c == '+' || c == '/';
        CHECK(ro_base64_is_digit((char)c) == digit);
    }
    CHECK(ro_base64_standard('-') == '+' && ro_base64_standard('_') == '/');
    CHECK(ro_base64_standard('a') == 'a');

    CHECK(encode("user:pw", 7, out) == 12);
    CHECK(memcmp(out, "dXNlcjpwdw==", 12) == 0);
    CHECK(encode("user:pwd", 8, out) == 12);
    CHECK(memcmp(out, "dXNlcjpwd2Q=", 12) == 0);

    /* alone, one byte before, two bytes before; then bytes behind */
    CHECK(covers(secrets, RO_SECRETS_BASE64, "czNjcmV0LXZhbHVl",
                 "xxxxxxxxxxxxxxxx"));
    CHECK(covers(secrets, RO_SECRETS_BASE64,
                 "OnMzY3JldC12YWx1ZQ==", ".xxxxxxxxxxxxxxxxxxx"));
    CHECK(covers(secrets, RO_SECRETS_BASE64,
                 "dTpzM2NyZXQtdmFsdWU=", "..xxxxxxxxxxxxxxxxxx"));
    CHECK(covers(secrets, RO_SECRETS_BASE64, "dTpzM2NyZXQtdmFsdWU6",
                 "..xxxxxxxxxxxxxxxxx."));
    CHECK(covers(secrets, RO_SECRETS_BASE64, "(dTpzM2NyZXQtdmFsdWU)",
                 "...xxxxxxxxxxxxxxxxx."));
    /* Padding that belongs to something else stays. */
    CHECK(covers(secrets, RO_SECRETS_BASE64,
                 "czNjcmV0LXZhbHVl=", "xxxxxxxxxxxxxxxx."));
    CHECK(covers(secrets, RO_SECRETS_BASE64,
                 "OnMzY3JldC12YWx1ZQ=", ".xxxxxxxxxxxxxxxxx."));
    CHECK(covers(secrets, RO_SECRETS_BASE64, "czNjcmV0LXZhbHVm",
                 "................"));
    CHECK(covers(others, RO_SECRETS_BASE64,
                 "MDEyMzQ1Njc4OWFiY2Q=", "xxxxxxxxxxxxxxxxxxxx"));
    ro_secrets_free(secrets);
    ro_secrets_free(others);
}

/* Random texts over two letters, all secrets tried at all places. */
static void
check_random(void)
{
    unsigned seed = 20240607;
    unsigned wrong = 0;

    for (unsigned round = 0; round < 400; round++) {
        char pool[4][64];
        ro_slice values[4];
        char text[600];
        char expected[600];
        ro_secrets *secrets = NULL;
        cover c;

        for (size_t i = 0; i < sizeof(text); i++) {
            seed = seed * 1664525 + 1013904223;
            text[i] = seed >> 28 < 13 ? 'a' : 'b';
        }
        memset(expected, '.', sizeof(expected));
        for (size_t v = 0; v < 4; v++) {
            size_t len;
            seed = seed * 1664525 + 1013904223;
            len = 8 + (seed >> 20) % 50;
            for (size_t i = 0; i < len; i++) {
                seed = seed * 1664525 + 1013904223;
                pool[v][i] = seed >> 28 < 15 ? 'a' : 'b';
            }
            if (v == 0) { /* one that is there */
                memcpy(pool[v], text + 500 - len, len);
            }
            values[v] = ro_slice_of(pool[v], len);
            for (size_t at = 0; at + len <= sizeof(text); at++) {
                if (memcmp(text + at, pool[v], len) == 0) {
                    memset(expected + at, 'x', len);
                }
            }
        }
        CHECK(ro_secrets_new(values, 4, &limits, &secrets) == RO_SECRETS_OK);
        c = search(secrets, RO_SECRETS_TEXT, ro_slice_of(text, sizeof(text)));
        wrong += memcmp(c.at, expected, sizeof(expected)) != 0;
        ro_secrets_free(secrets);
    }
    CHECK(wrong == 0);
}

static void
count(void *context, size_t first, size_t end)
{
    (void)first;
    (void)end;
    ++*(size_t *)context;
}

/* 300 secrets of 16 KiB and 1 MiB of one letter: no quadratic work. */
static void
check_hostile(void)
{
    enum { SECRETS = 300, LONG = 16384, TEXT = 1024 * 1024 };
    char *pool = malloc(SECRETS * LONG);
    char *text = malloc(TEXT);
    ro_slice values[SECRETS];
    ro_secrets *secrets = NULL;
    ro_secrets_scratch scratch = {0};
    size_t matches = 0;
    clock_t start;

    if (pool == NULL || text == NULL) {
        abort();
    }
    memset(pool, 'a', SECRETS * LONG);
    memset(text, 'a', TEXT);
    for (size_t i = 0; i < SECRETS; i++) {
        values[i] = ro_slice_of(pool + i * LONG, LONG);
        if (i > 0) {
            int len = snprintf(pool + i * LONG + LONG - 8, 8, "%07zu", i);
            pool[i * LONG + LONG - 1] = (char)('0' + len);
        }
    }
    start = clock();
    CHECK(ro_secrets_new(values, SECRETS, &limits, &secrets) == RO_SECRETS_OK);
    CHECK(ro_secrets_search(secrets, RO_SECRETS_TEXT, ro_slice_of(text, TEXT),
                            &scratch, count, &matches));
    CHECK(matches == TEXT - LONG + 1);
    CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 5.0);
    ro_secrets_scratch_free(&scratch);
    ro_secrets_scratch_free(&scratch);
    ro_secrets_free(secrets);
    free(pool);
    free(text);
}

static void
check_percent(void)
{
    char out[32];
    CHECK(ro_percent_decode(ro_slice_str("a%41%7a%7A"), out) == 4);
    CHECK(memcmp(out, "aAzz", 4) == 0);
    CHECK(ro_percent_decode(ro_slice_str("%252541"), out) == 1);
    CHECK(out[0] == 'A');
    CHECK(ro_percent_decode(ro_slice_str("%%34%31"), out) == 1);
    CHECK(out[0] == 'A');
    CHECK(ro_percent_decode(ro_slice_str("%4%g1%"), out) == 6);
    CHECK(ro_percent_decode(ro_slice_of(NULL, 0), out) == 0);
    CHECK(ro_hex_value('f') == 15 && ro_hex_value('G') == -1);
}

static bool
reads(const ro_view *view, const char *text)
{
    return ro_slice_equal(ro_slice_of(view->text, view->len),
                          ro_slice_str(text));
}

static void
check_views(void)
{
    ro_view text = {0};
    ro_view derived = {0};
    bool changed = false;

    ro_view_free(&text);
    CHECK(
        ro_view_of_string(&text, ro_slice_str("\"a\\u00e9\\ud83d\\ude00b\"")));
    CHECK(reads(&text, "a\xC3\xA9\xF0\x9F\x98\x80"
                       "b"));
    CHECK(text.start[1] == 2 && text.stop[1] == 8);
    CHECK(text.start[2] == 2 && text.stop[2] == 8);
    CHECK(text.start[6] == 8 && text.stop[6] == 20);
    CHECK(text.start[7] == 20 && text.stop[7] == 21);
    CHECK(!ro_view_unescape(&text));

    /* JSON in JSON: \\n, \\u0041, and backslashes that are no escapes */
    CHECK(ro_view_of_string(&text,
                            ro_slice_str("\"\\\\nx\\\\u0041\\\\q\\\\u00\"")));
    CHECK(reads(&text, "\\nx\\u0041\\q\\u00"));
    CHECK(ro_view_unescape(&text));
    CHECK(reads(&text, "\nxA\\q\\u00"));
    CHECK(text.start[2] == 5 && text.stop[2] == 12);
    CHECK(!ro_view_unescape(&text));
    CHECK(reads(&text, "\nxA\\q\\u00"));
    CHECK(ro_view_of_string(&text, ro_slice_str("\"\\\\ud83dx\\\\ud83d\"")));
    CHECK(ro_view_unescape(&text));
    CHECK(text.len == 7);

    CHECK(ro_view_of_string(&text, ro_slice_str("\"%41%2542%\"")));
    CHECK(ro_view_percent(&text, false, &derived, &changed) && changed);
    CHECK(reads(&derived, "A%42%"));
    CHECK(derived.start[1] == 4 && derived.stop[1] == 7);
    CHECK(ro_view_percent(&text, true, &derived, &changed) && changed);
    CHECK(reads(&derived, "AB%"));
    CHECK(derived.start[1] == 4 && derived.stop[1] == 9);
    CHECK(derived.start[2] == 9 && derived.stop[2] == 10);
    CHECK(ro_view_of_string(&text, ro_slice_str("\"%4x\"")));
    CHECK(ro_view_percent(&text, true, &derived, &changed) && !changed);

    CHECK(ro_view_of_string(&text, ro_slice_str("\"a-_\\n b=\"")));
    CHECK(ro_view_base64(&text, &derived));
    CHECK(reads(&derived, "a+/b="));
    CHECK(derived.stop[2] == 4 && derived.start[3] == 7);
    CHECK(ro_view_base64(&text, &text) && reads(&text, "a+/b="));
    CHECK(ro_view_of_string(&text, ro_slice_str("\"\"")));
    CHECK(text.len == 0 && !ro_view_unescape(&text));
    ro_view_free(&text);
    ro_view_free(&derived);
    ro_view_free(&derived);
}

/* Each allocation fails in turn: nothing leaks, the code says so. */
static void
check_no_memory(void)
{
    ro_slice values[3] = {
        ro_slice_str("first secret"),
        ro_slice_str("second%20secret"),
        ro_slice_str("third secret"),
    };
    size_t live = ro_alloc_live();
    bool done = false;

    for (size_t nth = 1; !done && nth < 100; nth++) {
        ro_secrets *secrets = NULL;
        ro_secrets_scratch scratch = {0};
        ro_secrets_code code;
        size_t matches = 0;
        bool searched = false;

        ro_alloc_fail_at(nth, 0);
        code = ro_secrets_new(values, 3, &limits, &secrets);
        if (code == RO_SECRETS_OK) {
            searched = ro_secrets_search(
                secrets, RO_SECRETS_TEXT,
                ro_slice_str("a first secret, a second%20secret"), &scratch,
                count, &matches);
            CHECK(searched || matches == 0);
            CHECK(!searched || matches == 2);
        }
        else {
            CHECK(code == RO_SECRETS_NO_MEMORY && secrets == NULL);
        }
        done = searched;
        ro_alloc_fail_at(0, 0);
        ro_secrets_scratch_free(&scratch);
        ro_secrets_free(secrets);
        CHECK(ro_alloc_live() == live);
    }
    CHECK(done);
}

int
main(void)
{
    check_compile();
    check_text();
    check_base64();
    check_random();
    check_hostile();
    check_percent();
    check_views();
    check_no_memory();
    return check_end();
}
