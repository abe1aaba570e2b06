#include "core/secrets.h"

#include "core/alloc.h"
#include "core/base64.h"
#include "core/percent.h"

#include <stdlib.h>

/* bytes: what a candidate is looked up by; no pattern is shorter */
#define TAIL 8u
/* bytes: distance of the prefix hashes that are kept of a text */
#define STRIDE 16u
/* A prime that reduces by shifting, and two bases for it. */
#define PRIME 0x7FFFFFFFu
#define BASE_A 1003930153u
#define BASE_B 1664525911u
#define NO_SLOT UINT32_MAX

/* Two polynomial hashes modulo PRIME. The hash of a range follows from those
 * of two prefixes, so a pattern of any length is compared in constant work:
 *     hash(text[a, b)) = hash(text[0, b)) - hash(text[0, a)) * base^(b - a)
 */
typedef struct ro_secrets_hash {
    uint32_t a;
    uint32_t b;
} ro_secrets_hash;

typedef struct pattern {
    uint64_t tail; /* the last TAIL bytes as they lie in memory */
    ro_secrets_hash hash;
    ro_secrets_hash power; /* the bases to the power of len */
    uint32_t len;
    bool value; /* a configured value itself, not a form of one */
    bool lead;  /* base64: also the digit before */
    bool trail; /* base64: also the digit behind, and then pads '=' */
    uint8_t pads;
} pattern;

typedef struct table {
    pattern *patterns; /* ascending by tail, then as compare_patterns says */
    size_t count;
    size_t cap;
    uint32_t *slots; /* the first pattern of each tail, by its hash */
    unsigned shift;  /* slots has 2^(64 - shift) entries */
} table;

struct ro_secrets {
    table forms[2]; /* by ro_secrets_form */
};

/* ---- hashing ---- */

/* Of what is at most (PRIME - 1) * PRIME, so that one step leaves less than
 * twice the prime. */
static uint32_t
reduce(uint64_t value)
{
    value = (value & PRIME) + (value >> 31);
    return (uint32_t)(value >= PRIME ? value - PRIME : value);
}

static ro_secrets_hash
hash_more(ro_secrets_hash hash, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        hash.a = reduce((uint64_t)hash.a * BASE_A + c);
        hash.b = reduce((uint64_t)hash.b * BASE_B + c);
    }
    return hash;
}

static ro_secrets_hash
power_of(size_t len)
{
    ro_secrets_hash power = {1, 1};
    uint64_t a = BASE_A;
    uint64_t b = BASE_B;
    for (; len > 0; len >>= 1) {
        if (len & 1) {
            power.a = reduce(power.a * a);
            power.b = reduce(power.b * b);
        }
        a = reduce(a * a);
        b = reduce(b * b);
    }
    return power;
}

static uint64_t
tail_before(const char *end)
{
    uint64_t tail;
    memcpy(&tail, end - TAIL, TAIL);
    return tail;
}

static size_t
slot_of(const table *t, uint64_t tail)
{
    return (size_t)((tail * UINT64_C(0x9E3779B97F4A7C15)) >> t->shift);
}

/* ---- compiling ---- */

static bool
add_pattern(table *t, ro_slice bytes, const ro_base64_core *core)
{
    static const ro_secrets_hash zero = {0, 0};
    pattern *p;

    if (t->count == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 16;
        pattern *grown = ro_realloc(t->patterns, cap * sizeof(*grown));
        if (grown == NULL) {
            return false;
        }
        t->patterns = grown;
        t->cap = cap;
    }
    p = &t->patterns[t->count++];
    memset(p, 0, sizeof(*p));
    p->tail = tail_before(bytes.ptr + bytes.len);
    p->hash = hash_more(zero, bytes.ptr, bytes.len);
    p->power = power_of(bytes.len);
    p->len = (uint32_t)bytes.len;
    if (core != NULL) {
        p->lead = core->lead;
        p->trail = core->trail;
        p->pads = (uint8_t)core->pads;
    }
    return true;
}

/* Every form of one value; room holds 2 * value.len bytes. */
static bool
add_value(ro_secrets *secrets, ro_slice value, char *room)
{
    table *text = &secrets->forms[RO_SECRETS_TEXT];
    table *base64 = &secrets->forms[RO_SECRETS_BASE64];
    size_t len;

    if (!add_pattern(text, value, NULL)) {
        return false;
    }
    text->patterns[text->count - 1].value = true;

    /* A value with percent signs, in a text whose every %XX is resolved. */
    len = ro_percent_decode(value, room);
    if (len != value.len && len >= TAIL
        && !add_pattern(text, ro_slice_of(room, len), NULL)) {
        return false;
    }
    /* A form field: '+' for a space. */
    if (memchr(value.ptr, ' ', value.len) != NULL) {
        for (size_t i = 0; i < value.len; i++) {
            room[i] = value.ptr[i];
            if (room[i] == ' ') {
                room[i] = '+';
            }
        }
        if (!add_pattern(text, ro_slice_of(room, value.len), NULL)) {
            return false;
        }
    }
    for (unsigned shift = 0; shift < 3; shift++) {
        ro_base64_core core = ro_base64_core_of(value, shift, room);
        if (!add_pattern(base64, ro_slice_of(room, core.len), &core)) {
            return false;
        }
    }
    return true;
}

#define ORDER(x, y)                                                           \
    do {                                                                      \
        if ((x) != (y)) {                                                     \
            return (x) < (y) ? -1 : 1;                                        \
        }                                                                     \
    } while (0)

static int
compare_patterns(const void *left, const void *right)
{
    const pattern *x = left;
    const pattern *y = right;
    ORDER(x->tail, y->tail);
    ORDER(x->len, y->len);
    ORDER(x->hash.a, y->hash.a);
    ORDER(x->hash.b, y->hash.b);
    ORDER(x->lead, y->lead);
    ORDER(x->trail, y->trail);
    ORDER(x->pads, y->pads);
    ORDER(y->value, x->value); /* the value itself is the one that stays */
    return 0;
}

static bool
same_pattern(const pattern *x, const pattern *y)
{
    return x->tail == y->tail && x->len == y->len && x->hash.a == y->hash.a
           && x->hash.b == y->hash.b && x->lead == y->lead
           && x->trail == y->trail && x->pads == y->pads;
}

/* Sorts, drops what is there twice and builds the slots. */
static bool
seal_table(table *t)
{
    size_t kept = 0;
    size_t slots = 2;

    if (t->count == 0) {
        return true;
    }
    qsort(t->patterns, t->count, sizeof(*t->patterns), compare_patterns);
    for (size_t i = 0; i < t->count; i++) {
        if (kept == 0
            || !same_pattern(&t->patterns[i], &t->patterns[kept - 1])) {
            t->patterns[kept++] = t->patterns[i];
        }
    }
    t->count = kept;

    t->shift = 63;
    while (slots < 2 * kept) {
        slots *= 2;
        t->shift--;
    }
    t->slots = ro_malloc(slots * sizeof(*t->slots));
    if (t->slots == NULL) {
        return false;
    }
    memset(t->slots, 0xFF, slots * sizeof(*t->slots));
    for (size_t i = 0; i < kept; i++) {
        size_t slot;
        if (i > 0 && t->patterns[i].tail == t->patterns[i - 1].tail) {
            continue;
        }
        slot = slot_of(t, t->patterns[i].tail);
        while (t->slots[slot] != NO_SLOT) {
            slot = (slot + 1) & (slots - 1);
        }
        t->slots[slot] = (uint32_t)i;
    }
    return true;
}

static ro_secrets_code
add_values(ro_secrets *secrets, const ro_slice *values, size_t count,
           const ro_secrets_limits *limits)
{
    size_t min_len = limits->min_len > TAIL ? limits->min_len : TAIL;
    size_t longest = 0;
    char *room;
    bool added = true;

    for (size_t i = 0; i < count; i++) {
        longest = values[i].len > longest ? values[i].len : longest;
    }
    if (longest > limits->max_len) {
        return RO_SECRETS_TOO_LONG;
    }
    room = ro_malloc(2 * longest);
    if (room == NULL) {
        return RO_SECRETS_NO_MEMORY;
    }
    for (size_t i = 0; added && i < count; i++) {
        if (values[i].len >= min_len) {
            added = add_value(secrets, values[i], room);
        }
    }
    ro_free(room);
    return added ? RO_SECRETS_OK : RO_SECRETS_NO_MEMORY;
}

ro_secrets_code
ro_secrets_new(const ro_slice *values, size_t count,
               const ro_secrets_limits *limits, ro_secrets **out)
{
    ro_secrets *secrets = ro_calloc(1, sizeof(*secrets));
    ro_secrets_code code = RO_SECRETS_NO_MEMORY;
    table *text;
    size_t distinct = 0;

    *out = NULL;
    if (secrets == NULL) {
        return code;
    }
    code = add_values(secrets, values, count, limits);
    if (code != RO_SECRETS_OK) {
        goto fail;
    }
    if (!seal_table(&secrets->forms[RO_SECRETS_TEXT])
        || !seal_table(&secrets->forms[RO_SECRETS_BASE64])) {
        code = RO_SECRETS_NO_MEMORY;
        goto fail;
    }
    text = &secrets->forms[RO_SECRETS_TEXT];
    for (size_t i = 0; i < text->count; i++) {
        distinct += text->patterns[i].value;
    }
    if (distinct > limits->max_count) {
        code = RO_SECRETS_TOO_MANY;
        goto fail;
    }
    *out = secrets;
    return RO_SECRETS_OK;
fail:
    ro_secrets_free(secrets);
    return code;
}

void
ro_secrets_free(ro_secrets *secrets)
{
    if (secrets == NULL) {
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        ro_free(secrets->forms[i].patterns);
        ro_free(secrets->forms[i].slots);
    }
    ro_free(secrets);
}

/* ---- searching ---- */

void
ro_secrets_scratch_free(ro_secrets_scratch *scratch)
{
    ro_free(scratch->marks);
    memset(scratch, 0, sizeof(*scratch));
}

/* The hash of every STRIDE-th prefix of the text. All of them would be as many
 * as the text has bytes, eight bytes each. */
static bool
hash_prefixes(ro_slice text, ro_secrets_scratch *scratch)
{
    size_t count = text.len / STRIDE + 1;
    ro_secrets_hash hash = {0, 0};

    if (scratch->cap < count) {
        ro_secrets_scratch_free(scratch);
        scratch->marks = ro_malloc(count * sizeof(*scratch->marks));
        if (scratch->marks == NULL) {
            return false;
        }
        scratch->cap = count;
    }
    for (size_t i = 0; i < count; i++) {
        scratch->marks[i] = hash;
        if (i + 1 < count) {
            hash = hash_more(hash, text.ptr + i * STRIDE, STRIDE);
        }
    }
    return true;
}

static ro_secrets_hash
prefix_hash(ro_slice text, const ro_secrets_scratch *scratch, size_t len)
{
    size_t mark = len / STRIDE;
    return hash_more(scratch->marks[mark], text.ptr + mark * STRIDE,
                     len % STRIDE);
}

static bool
matches(const pattern *p, ro_slice text, const ro_secrets_scratch *scratch,
        size_t end)
{
    ro_secrets_hash before;
    ro_secrets_hash whole;

    if (p->len > end) {
        return false;
    }
    if (p->len == TAIL) {
        return true; /* the look-up has compared all of it */
    }
    before = prefix_hash(text, scratch, end - p->len);
    whole = prefix_hash(text, scratch, end);
    return reduce((uint64_t)before.a * p->power.a + p->hash.a) == whole.a
           && reduce((uint64_t)before.b * p->power.b + p->hash.b) == whole.b;
}

static void
report(const pattern *p, ro_slice text, size_t end, ro_match_fn found,
       void *context)
{
    size_t first = end - p->len;
    size_t pads = 0;

    if (p->lead && first > 0 && ro_base64_is_digit(text.ptr[first - 1])) {
        first--;
    }
    if (p->trail && end < text.len && ro_base64_is_digit(text.ptr[end])) {
        end++;
    }
    while (pads < p->pads && end + pads < text.len
           && text.ptr[end + pads] == '=') {
        pads++;
    }
    found(context, first, pads == p->pads ? end + pads : end);
}

/* The first pattern with that tail, or t->count. */
static size_t
find_tail(const table *t, uint64_t tail)
{
    size_t slots = (size_t)1 << (64 - t->shift);
    size_t slot = slot_of(t, tail);
    while (t->slots[slot] != NO_SLOT) {
        if (t->patterns[t->slots[slot]].tail == tail) {
            return t->slots[slot];
        }
        slot = (slot + 1) & (slots - 1);
    }
    return t->count;
}

bool
ro_secrets_search(const ro_secrets *secrets, ro_secrets_form form,
                  ro_slice text, ro_secrets_scratch *scratch,
                  ro_match_fn found, void *context)
{
    const table *t = secrets == NULL ? NULL : &secrets->forms[form];
    bool hashed = false;

    if (t == NULL || t->count == 0) {
        return true;
    }
    for (size_t end = TAIL; end <= text.len; end++) {
        uint64_t tail = tail_before(text.ptr + end);
        size_t i = find_tail(t, tail);
        /* Most texts hold no tail of a secret and are never hashed. */
        if (i < t->count && !hashed) {
            if (!hash_prefixes(text, scratch)) {
                return false;
            }
            hashed = true;
        }
        for (; i < t->count && t->patterns[i].tail == tail; i++) {
            if (matches(&t->patterns[i], text, scratch, end)) {
                report(&t->patterns[i], text, end, found, context);
            }
        }
    }
    return true;
}
