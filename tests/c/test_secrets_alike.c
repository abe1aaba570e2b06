/* Secrets that look alike to the search: in half of a hash, in every whole
 * digit of their base64, or because one is a form of the other. None of them
 * hides another. */
#include "core/alloc.h"
#include "core/base64.h"
#include "core/secrets.h"
#include "failing.h"

#include <string.h>

static const ro_secrets_limits limits = {
    .min_len = 8,
    .max_len = 1024,
    .max_count = 64,
};

typedef struct ranges {
    size_t first[8];
    size_t end[8];
    size_t count;
} ranges;

static void
note(void *context, size_t first, size_t end)
{
    ranges *seen = context;
    if (seen->count < 8) {
        seen->first[seen->count] = first;
        seen->end[seen->count] = end;
    }
    seen->count++;
}

static ro_secrets *
compile(const ro_slice *values, size_t count)
{
    ro_secrets *secrets = NULL;
    CHECK(ro_secrets_new(values, count, &limits, &secrets) == RO_SECRETS_OK);
    return secrets;
}

static ranges
search(const ro_secrets *secrets, ro_secrets_form form, ro_slice text)
{
    ro_secrets_scratch scratch = {0};
    ranges seen = {.count = 0};
    CHECK(ro_secrets_search(secrets, form, text, &scratch, note, &seen));
    ro_secrets_scratch_free(&scratch);
    return seen;
}

static bool
has_range(const ranges *seen, size_t first, size_t end)
{
    for (size_t i = 0; i < seen->count && i < 8; i++) {
        if (seen->first[i] == first && seen->end[i] == end) {
            return true;
        }
    }
    return false;
}

/* ---- half of a hash ---- */

/* Equal in length, the last eight bytes and the first of the two hashes. */
static void
test_half_of_a_hash(void)
{
    static const char *const pairs[][2] = {
        {"8290a1d2-the-end", "cb7095e9-the-end"},
        {"0e159b2e-the-end", "eeaa9da2-the-end"},
    };
    for (size_t i = 0; i < 4; i++) {
        const char *one = pairs[i / 2][i % 2];
        const char *other = pairs[i / 2][1 - i % 2];
        ro_slice values[] = {ro_slice_str(one), ro_slice_str(other)};
        char text[64];
        (void)snprintf(text, sizeof(text), "- %s, %s.", one, other);

        ro_secrets *both = compile(values, 2);
        ranges seen = search(both, RO_SECRETS_TEXT, ro_slice_str(text));
        CHECK(seen.count == 2);
        CHECK(has_range(&seen, 2, 18) && has_range(&seen, 20, 36));
        ro_secrets_free(both);

        ro_secrets *alone = compile(values, 1);
        seen = search(alone, RO_SECRETS_TEXT, ro_slice_str(text));
        CHECK(seen.count == 1 && has_range(&seen, 2, 18));
        ro_secrets_free(alone);
    }
}

/* ---- digits of base64 ---- */

/* One value, by where it stands in the bytes of a longer one. */
typedef struct placed {
    unsigned shift;
    size_t len;
} placed;

/* Bytes whose whole digits at that shift are those of the common bits; what is
 * around them is the value's own. */
static void
fill(placed where, unsigned own, char *bytes)
{
    size_t before = where.shift == 0 ? 0 : where.shift == 1 ? 4 : 2;
    memset(bytes, 0, where.len);
    for (size_t bit = 0; bit < 8 * where.len; bit++) {
        size_t common = bit - before;
        bool inside
            = bit >= before && common / 6 < (8 * where.len - before) / 6;
        unsigned value = inside ? (unsigned)(common * common / 3 + common) & 1
                                : (own >> (bit % 5)) & 1;
        bytes[bit / 8]
            = (char)(bytes[bit / 8] | (int)(value << (7 - bit % 8)));
    }
}

/* The base64 of a value behind as many other bytes as its shift; where its
 * digits begin and end. */
static size_t
encode(ro_slice value, unsigned shift, char *text, size_t *first, size_t *end)
{
    char room[64];
    char bytes[32] = "??";
    memcpy(bytes + shift, value.ptr, value.len);
    size_t len = shift + value.len;
    ro_base64_core whole = ro_base64_core_of(ro_slice_of(bytes, len), 0, room);
    ro_base64_core core = ro_base64_core_of(value, shift, text);
    size_t digits = whole.len;
    memcpy(text, room, whole.len);
    if (whole.trail) { /* the rest of the bits, filled up with zeros */
        bytes[len] = '\0';
        bytes[len + 1] = '\0';
        ro_base64_core more
            = ro_base64_core_of(ro_slice_of(bytes, len + 2), 0, room);
        CHECK(more.len > whole.len);
        text[digits++] = room[whole.len];
    }
    for (unsigned i = 0; i < whole.pads; i++) {
        text[digits + i] = '=';
    }
    *first = shift; /* the digit that has the first of its bits */
    CHECK(core.lead == (shift != 0) && core.pads == whole.pads);
    *end = digits + whole.pads;
    return *end;
}

static void
test_whole_digits_alike(void)
{
    static const placed pairs[][2] = {
        {{0, 12}, {1, 13}}, /* one has a digit before, the other has not */
        {{1, 14}, {2, 14}}, /* one has a digit behind */
        {{1, 12}, {2, 12}}, /* both, and as many '=' as the other has not */
    };
    for (size_t i = 0; i < 6; i++) {
        const placed *one = &pairs[i / 2][i % 2];
        const placed *other = &pairs[i / 2][1 - i % 2];
        char bytes[2][16];
        char digits[2][32];
        fill(*one, 0x15, bytes[0]);
        fill(*other, 0x0a, bytes[1]);
        ro_slice values[] = {ro_slice_of(bytes[0], one->len),
                             ro_slice_of(bytes[1], other->len)};
        ro_base64_core a = ro_base64_core_of(values[0], one->shift, digits[0]);
        ro_base64_core b
            = ro_base64_core_of(values[1], other->shift, digits[1]);
        /* that they are alike, and in what they are not */
        CHECK(a.len == b.len && memcmp(digits[0], digits[1], a.len) == 0);
        CHECK(a.lead != b.lead || a.trail != b.trail || a.pads != b.pads);

        ro_secrets *secrets = compile(values, 2);
        for (size_t k = 0; k < 2; k++) {
            char text[64];
            size_t first;
            size_t end;
            size_t len = encode(values[k], k == 0 ? one->shift : other->shift,
                                text, &first, &end);
            ranges seen
                = search(secrets, RO_SECRETS_BASE64, ro_slice_of(text, len));
            CHECK(has_range(&seen, first, end));
        }
        ro_secrets_free(secrets);
    }
}

/* What carries a few bits of a value belongs to it only where it is there. */
static void
test_what_is_around_the_digits(void)
{
    static const struct {
        const char *before;
        const char *behind;
        size_t lead;
        size_t more;
    } cases[] = {
        {"", "", 0, 0},      {"!", "!", 0, 0}, {"A", "", 1, 0},
        {"", "A", 0, 1},     {"+", "/", 1, 1}, {"AA", "A=", 1, 1},
        {"", "A==", 0, 3},   {"", "A!", 0, 1}, {"", "=", 0, 0},
        {"A", "AAAA", 1, 1},
    };
    ro_slice value = ro_slice_str("0123456789abcd"); /* at shift 2: two '=' */
    char digits[32];
    ro_base64_core core = ro_base64_core_of(value, 2, digits);
    ro_secrets *secrets = compile(&value, 1);
    CHECK(core.lead && core.trail && core.pads == 2);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[64];
        size_t start = strlen(cases[i].before);
        int len = snprintf(text, sizeof(text), "%s%.*s%s", cases[i].before,
                           (int)core.len, digits, cases[i].behind);
        ranges seen = search(secrets, RO_SECRETS_BASE64,
                             ro_slice_of(text, (size_t)len));
        CHECK(seen.count == 1);
        CHECK(has_range(&seen, start - cases[i].lead,
                        start + core.len + cases[i].more));
    }
    ro_secrets_free(secrets);
}

/* ---- forms ---- */

/* A value that is what another one reads as when it is decoded stays a value,
 * in whichever order they come, and is found once. */
static void
test_a_form_that_is_a_value(void)
{
    ro_slice plain = ro_slice_str("Abcdefgh12");
    ro_slice coded = ro_slice_str("%41bcdefgh12");
    ro_slice text = ro_slice_str("Abcdefgh12 %41bcdefgh12");
    ro_secrets_limits one = limits;
    ro_secrets *secrets = NULL;
    one.max_count = 1;
    for (int i = 0; i < 2; i++) {
        ro_slice values[]
            = {i == 0 ? plain : coded, i == 0 ? coded : plain, plain};
        CHECK(ro_secrets_new(values, 3, &one, &secrets)
              == RO_SECRETS_TOO_MANY);
        CHECK(secrets == NULL);
        secrets = compile(values, 3);
        ranges seen = search(secrets, RO_SECRETS_TEXT, text);
        CHECK(seen.count == 2);
        CHECK(has_range(&seen, 0, 10) && has_range(&seen, 11, 23));
        ro_secrets_free(secrets);
    }
    ro_slice twice[] = {plain, plain};
    CHECK(ro_secrets_new(twice, 2, &one, &secrets) == RO_SECRETS_OK);
    ro_secrets_free(secrets);
}

/* ---- out of memory ---- */

struct many {
    size_t count;
};

static bool
compile_many(void *ctx)
{
    const struct many *many = ctx;
    char texts[24][48];
    ro_slice values[24];
    ro_secrets *secrets = NULL;
    for (size_t i = 0; i < many->count; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "%%41 secret %02zu %%41",
                       i);
        values[i] = ro_slice_str(texts[i]);
    }
    ro_secrets_code code
        = ro_secrets_new(values, many->count, &limits, &secrets);
    CHECK(code == RO_SECRETS_OK || code == RO_SECRETS_NO_MEMORY);
    CHECK((secrets != NULL) == (code == RO_SECRETS_OK));
    bool whole = code == RO_SECRETS_OK;
    if (whole) {
        ro_secrets_scratch scratch = {0};
        ranges seen = {.count = 0};
        whole = ro_secrets_search(secrets, RO_SECRETS_TEXT,
                                  ro_slice_str("A+secret+00+A A secret 00 A"),
                                  &scratch, note, &seen);
        /* the percent signs are decoded, or the spaces are '+' */
        CHECK(!whole || (seen.count == 1 && has_range(&seen, 14, 27)));
        ro_secrets_scratch_free(&scratch);
    }
    ro_secrets_free(secrets);
    return whole;
}

/* Whichever form it is that has to grow the table. */
static void
test_every_allocation_fails_in_turn(void)
{
    for (size_t count = 1; count <= 24; count++) {
        struct many many = {count};
        CHECK(check_failing(compile_many, &many) > 4);
    }
}

int
main(void)
{
    test_half_of_a_hash();
    test_whole_digits_alike();
    test_what_is_around_the_digits();
    test_a_form_that_is_a_value();
    test_every_allocation_fails_in_turn();
    CHECK(ro_alloc_live() == 0);
    return check_end();
}
