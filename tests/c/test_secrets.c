/* The compiled set of secrets against a search that looks everywhere. */
#include "core/alloc.h"
#include "core/base64.h"
#include "core/percent.h"
#include "core/secrets.h"
#include "core/view.h"

#include "check.h"

static const ro_secrets_limits limits = {
    .min_len = 8,
    .max_len = 1024 * 1024,
    .max_count = 512,
};

/* An exact copy, so that a sanitizer sees a read behind it. */
static char *
exact(ro_slice bytes)
{
    char *copy = malloc(bytes.len ? bytes.len : 1);
    if (copy == NULL) {
        abort();
    }
    if (bytes.len > 0) {
        memcpy(copy, bytes.ptr, bytes.len);
    }
    return copy;
}

static ro_secrets *
compile(const char *const *texts, size_t count)
{
    ro_slice values[8] = {{NULL, 0}};
    char *copies[8];
    ro_secrets *secrets = NULL;
    for (size_t i = 0; i < count; i++) {
        copies[i] = exact(ro_slice_str(texts[i]));
        values[i] = ro_slice_of(copies[i], strlen(texts[i]));
    }
    CHECK(ro_secrets_new(values, count, &limits, &secrets) == RO_SECRETS_OK);
    for (size_t i = 0; i < count; i++) {
        free(copies[i]);
    }
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
    char *copy = exact(text);
    memset(c.at, '.', sizeof(c.at));
    CHECK(ro_secrets_search(secrets, form, ro_slice_of(copy, text.len),
                            &scratch, paint, &c));
    free(copy);
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
    few.max_len = 8;
    few.max_count = 2;
    CHECK(ro_secrets_new(values, 2, &few, &secrets) == RO_SECRETS_OK);
    ro_secrets_free(secrets);
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
    /* two of one tail, with others between them in any order */
    static const char *const alike[]
        = {"Bearer aaaaaaaab", "zzzzzzzzz", "aaaaaaaab", "00000000"};
    ro_secrets *two = compile(alike, 4);
    CHECK(search(two, RO_SECRETS_TEXT, ro_slice_str("Bearer aaaaaaaab")).calls
          == 2);
    ro_secrets_free(two);
    /* the tail of one that is longer than the text */
    CHECK(search(secrets, RO_SECRETS_TEXT, ro_slice_str("caaaaaaab")).calls
          == 0);
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
    /* A form field that begins with a space. */
    static const char *const spaced[] = {" a b c d"};
    ro_secrets *field = compile(spaced, 1);
    CHECK(covers(field, RO_SECRETS_TEXT, "+a+b+c+d  a b c d",
                 "xxxxxxxx.xxxxxxxx"));
    ro_secrets_free(field);
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

/* As many secrets as the first block of patterns holds, so that a sanitizer
 * sees one pattern over, and more. A text without the end of one costs no
 * memory, and the scratch of one search serves the next. */
static void
check_many(size_t count)
{
    char texts[40][10];
    ro_slice values[40];
    ro_secrets *secrets = NULL;
    ro_secrets_scratch scratch = {0};
    cover c = {.calls = 0};
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "secret-%02u", (unsigned)i);
        values[i] = ro_slice_str(texts[i]);
    }
    CHECK(ro_secrets_new(values, count, &limits, &secrets) == RO_SECRETS_OK);
    ro_alloc_fail_at(0, 0);
    CHECK(ro_secrets_search(secrets, RO_SECRETS_TEXT,
                            ro_slice_str("no secret of theirs"), &scratch,
                            paint, &c));
    CHECK(c.calls == 0 && ro_alloc_count() == 0);
    for (size_t i = 0; i < count; i++) {
        CHECK(ro_secrets_search(secrets, RO_SECRETS_TEXT, values[i], &scratch,
                                paint, &c));
        CHECK(c.calls == i + 1 && ro_alloc_count() == 1);
    }
    CHECK(ro_secrets_search(secrets, RO_SECRETS_TEXT,
                            ro_slice_str("a longer text: secret-01"), &scratch,
                            paint, &c));
    CHECK(c.calls == count + 1 && ro_alloc_count() == 2);
    ro_secrets_scratch_free(&scratch);
    CHECK(ro_secrets_search(secrets, RO_SECRETS_TEXT, values[0], &scratch,
                            paint, &c));
    CHECK(c.calls == count + 2 && ro_alloc_count() == 3);
    ro_secrets_scratch_free(&scratch);
    ro_secrets_scratch_free(&scratch);
    ro_secrets_free(secrets);
}

/* Texts of one length and one tail that share one of the two hashes are not
 * the same; a value that stands twice is one, whatever lies between. */
static void
check_one_hash(void)
{
    static const char *const pairs[][2] = {
        {"tob81l52-at-last", "v0n7quri-at-last"}, /* the first */
        {"is4q68qd-at-last", "ma7b8yb5-at-last"}, /* the second */
    };
    ro_secrets_limits two = limits;
    two.max_count = 2;
    for (size_t i = 0; i < 2; i++) {
        ro_slice one = ro_slice_str(pairs[i][0]);
        ro_slice other = ro_slice_str(pairs[i][1]);
        const ro_slice values[] = {one, other, one};
        ro_secrets *secrets = compile(pairs[i], 1);
        CHECK(search(secrets, RO_SECRETS_TEXT, one).calls == 1);
        CHECK(search(secrets, RO_SECRETS_TEXT, other).calls == 0);
        ro_secrets_free(secrets);
        CHECK(ro_secrets_new(values, 3, &two, &secrets) == RO_SECRETS_OK);
        CHECK(search(secrets, RO_SECRETS_TEXT, one).calls == 1);
        CHECK(search(secrets, RO_SECRETS_TEXT, other).calls == 1);
        ro_secrets_free(secrets);
    }
    /* NUL bytes in front change no hash, but the length. */
    const ro_slice plain = ro_slice_str("eightby8");
    const ro_slice longer = ro_slice_of("\0eightby8", 9);
    const ro_slice values[] = {plain, longer, plain};
    ro_secrets *secrets = NULL;
    CHECK(ro_secrets_new(values, 3, &two, &secrets) == RO_SECRETS_OK);
    CHECK(search(secrets, RO_SECRETS_TEXT, plain).calls == 1);
    CHECK(search(secrets, RO_SECRETS_TEXT, longer).calls == 2);
    ro_secrets_free(secrets);
}

/* What a core leaves out at its ends follows from where it begins and ends in
 * the groups of three bytes. */
static void
check_base64_ends(void)
{
    static const unsigned before[] = {0, 4, 2};
    static const unsigned pads[] = {0, 2, 1};
    char bytes[17];
    char out[24];
    memset(bytes, 'x', sizeof(bytes));
    for (size_t len = 8; len <= sizeof(bytes); len++) {
        for (unsigned shift = 0; shift < 3; shift++) {
            size_t over = (shift + len) % 3;
            ro_base64_core core
                = ro_base64_core_of(ro_slice_of(bytes, len), shift, out);
            CHECK(core.len == (8 * len - before[shift]) / 6);
            CHECK(core.lead == (shift != 0));
            CHECK(core.trail == (over != 0));
            CHECK(core.pads == pads[over]);
        }
    }
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
    /* without the digit before, and with no more than it; cut at the end */
    CHECK(covers(secrets, RO_SECRETS_BASE64,
                 "MzY3JldC12YWx1ZQ==", "xxxxxxxxxxxxxxxxxx"));
    CHECK(covers(secrets, RO_SECRETS_BASE64,
                 "nMzY3JldC12YWx1ZQ==", "xxxxxxxxxxxxxxxxxxx"));
    CHECK(covers(secrets, RO_SECRETS_BASE64,
                 "(MzY3JldC12YWx1ZQ==", ".xxxxxxxxxxxxxxxxxx"));
    CHECK(covers(secrets, RO_SECRETS_BASE64, "OnMzY3JldC12YWx1ZQ",
                 ".xxxxxxxxxxxxxxxxx"));
    CHECK(covers(secrets, RO_SECRETS_BASE64, "OnMzY3JldC12YWx1Z",
                 ".xxxxxxxxxxxxxxxx"));
    CHECK(covers(secrets, RO_SECRETS_BASE64, "dTpzM2NyZXQtdmFsdWU6",
                 "..xxxxxxxxxxxxxxxxx."));
    CHECK(covers(secrets, RO_SECRETS_BASE64, "(dTpzM2NyZXQtdmFsdWU)",
                 "...xxxxxxxxxxxxxxxxx."));
    /* Padding that belongs to something else stays. */
    CHECK(covers(secrets, RO_SECRETS_BASE64,
                 "czNjcmV0LXZhbHVl=", "xxxxxxxxxxxxxxxx."));
    CHECK(covers(secrets, RO_SECRETS_BASE64,
                 "OnMzY3JldC12YWx1ZQ=", ".xxxxxxxxxxxxxxxxx."));
    CHECK(covers(secrets, RO_SECRETS_BASE64,
                 "OnMzY3JldC12YWx1ZQ===", ".xxxxxxxxxxxxxxxxxxx."));
    CHECK(covers(others, RO_SECRETS_BASE64,
                 "dTpzM2NyZXQtdmFsdWUh==", "..xxxxxxxxxxxxxxxxxx.."));
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

static void
check_percent(void)
{
    char out[32];
    CHECK(ro_percent_decode(ro_slice_str("a%41%7a%7A"), out) == 4);
    CHECK(memcmp(out, "aAzz", 4) == 0);
    CHECK(ro_percent_decode(ro_slice_str("%09%0a%10"), out) == 3);
    CHECK(memcmp(out, "\t\n\x10", 3) == 0);
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

/* So many values that both tables grow, the one for texts at each of the three
 * forms that a value has there: what was compiled is whole. */
static void
check_no_memory_to_grow(void)
{
    enum { LAST = 5, MOST = LAST + 3 };
    for (size_t nth = 1; nth < 12; nth++) {
        for (size_t plain = 0; plain < 3; plain++) {
            char texts[MOST][16];
            char base64[32] = "";
            ro_slice values[MOST];
            ro_secrets *secrets = NULL;
            size_t count = plain + LAST + 1;
            for (size_t i = 0; i < count; i++) {
                (void)snprintf(texts[i], sizeof(texts[i]),
                               i < plain ? "secret-%zu" : "a%%42 c-%zu-secret",
                               i);
                values[i] = ro_slice_str(texts[i]);
            }
            ro_alloc_fail_at(nth, 0);
            ro_secrets_code code
                = ro_secrets_new(values, count, &limits, &secrets);
            bool whole = ro_alloc_count() < nth;
            ro_alloc_fail_at(0, 0);
            CHECK(code == (whole ? RO_SECRETS_OK : RO_SECRETS_NO_MEMORY));
            CHECK((secrets != NULL) == whole);
            if (whole) {
                char *last = texts[count - 1];
                size_t len = strlen(last);
                (void)encode(last, len, base64);
                CHECK(search(secrets, RO_SECRETS_BASE64, ro_slice_str(base64))
                          .calls
                      == 1);
                CHECK(search(secrets, RO_SECRETS_TEXT, values[count - 1]).calls
                      == 1);
                last[4] = '+';
                CHECK(search(secrets, RO_SECRETS_TEXT, values[count - 1]).calls
                      == 1);
                memcpy(last, "  aB ", 5);
                CHECK(search(secrets, RO_SECRETS_TEXT, values[count - 1]).calls
                      == 1);
            }
            ro_secrets_free(secrets);
        }
    }
}

int
main(void)
{
    check_compile();
    check_text();
    check_many(16);
    check_many(40);
    check_one_hash();
    check_base64_ends();
    check_base64();
    check_random();
    check_percent();
    check_views();
    check_no_memory();
    check_no_memory_to_grow();
    return check_end();
}
