/* The key table below the scanner: documents in blocks of their exact size,
 * so that a sanitizer sees one byte over. */
#include "check.h"

#include "core/alloc.h"
#include "core/json_keys.h"

#include <sys/auxv.h>

/* A document of that many keys of four bytes, "k" and two digits or letters,
 * each in quotes and a byte behind it. */
#define KEY 5u

static char *
document(size_t count)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    char *doc = malloc(count * KEY);
    if (doc == NULL) {
        abort();
    }
    for (size_t i = 0; i < count; i++) {
        char *key = doc + i * KEY;
        key[0] = key[3] = '"';
        key[1] = digits[i / 36 % 36];
        key[2] = digits[i % 36];
        key[4] = ',';
    }
    return doc;
}

static ro_json_code
add(ro_json_keys *keys, uint32_t base, size_t nth)
{
    ro_slice raw = ro_slice_of(keys->doc.ptr + nth * KEY, KEY - 1);
    return ro_json_keys_add(keys, base, raw, false);
}

/* Every key is found again, and one more is not: before, at and behind each
 * growth. */
static void
test_growth(void)
{
    static const size_t counts[] = {1, 63, 64, 65, 127, 128, 129, 1000};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        size_t count = counts[i];
        char *doc = document(count + 1);
        ro_json_keys keys;
        ro_json_keys_init(&keys, ro_slice_of(doc, (count + 1) * KEY));
        for (size_t nth = 0; nth < count; nth++) {
            CHECK(add(&keys, 0, nth) == RO_JSON_OK);
        }
        CHECK(keys.count == count && keys.cap >= count);
        CHECK(count <= RO_JSON_FEW_KEYS
              || keys.slot_count == keys.cap + keys.cap / 2);
        CHECK(keys.slot_count > keys.count);
        CHECK(count != 1000 || keys.cap == 16 * RO_JSON_FEW_KEYS);
        for (size_t nth = 0; nth < count; nth++) {
            CHECK(add(&keys, 0, nth) == RO_JSON_DUPLICATE_KEY);
        }
        CHECK(add(&keys, 0, count) == RO_JSON_OK);
        ro_json_keys_free(&keys);
        free(doc);
    }
}

/* The table never takes more than the rest of the document can need: a key
 * costs four bytes. */
static void
test_growth_is_bounded_by_the_rest(void)
{
    for (size_t left = 0; left < 20; left++) {
        size_t count = RO_JSON_FEW_KEYS + 1 + left;
        char *doc = document(count);
        ro_json_keys keys;
        ro_json_keys_init(&keys, ro_slice_of(doc, count * KEY));
        for (size_t nth = 0; nth <= RO_JSON_FEW_KEYS; nth++) {
            CHECK(add(&keys, 0, nth) == RO_JSON_OK);
        }
        CHECK(keys.cap == RO_JSON_FEW_KEYS + 1 + (left * KEY + 1) / 4);
        ro_json_keys_free(&keys);
        free(doc);
    }
}

/* Keys begin all over the table. */
static void
test_spread(void)
{
    enum { COUNT = RO_JSON_FEW_KEYS - 1 };
    char *doc = document(COUNT);
    ro_json_keys keys;
    size_t above = 0;
    ro_json_keys_init(&keys, ro_slice_of(doc, COUNT * KEY));
    keys.seed[0] = keys.seed[1] = 0;
    for (size_t nth = 0; nth < COUNT; nth++) {
        CHECK(add(&keys, 0, nth) == RO_JSON_OK);
    }
    for (uint32_t slot = RO_JSON_FEW_SLOTS / 2; slot < RO_JSON_FEW_SLOTS;
         slot++) {
        above += keys.slots[slot] != 0;
    }
    CHECK(above > COUNT / 4 && above < COUNT - COUNT / 4);
    ro_json_keys_free(&keys);
    free(doc);
}

/* A closed object's keys are gone: from the table, not only from the count;
 * those of the objects around it stay. */
static size_t
taken(const ro_json_keys *keys)
{
    size_t count = 0;
    for (uint32_t slot = 0; slot < keys->slot_count; slot++) {
        count += keys->slots[slot] != 0;
    }
    return count;
}

static void
test_drop(void)
{
    enum { INNER = 200 };
    static const uint32_t outers[] = {0, 1, 10};
    for (size_t i = 0; i < sizeof(outers) / sizeof(outers[0]); i++) {
        uint32_t outer = outers[i];
        char *doc = document(outer + INNER);
        ro_json_keys keys;
        ro_json_keys_init(&keys, ro_slice_of(doc, (outer + INNER) * KEY));
        for (size_t nth = 0; nth < outer; nth++) {
            CHECK(add(&keys, 0, nth) == RO_JSON_OK);
        }
        for (int round = 0; round < 3; round++) {
            for (size_t nth = outer; nth < outer + INNER; nth++) {
                CHECK(add(&keys, outer, nth) == RO_JSON_OK);
            }
            CHECK(outer == 0 || add(&keys, outer, 0) == RO_JSON_OK);
            CHECK(add(&keys, outer, outer) == RO_JSON_DUPLICATE_KEY);
            ro_json_keys_drop(&keys, outer);
            CHECK(keys.count == outer && taken(&keys) == outer);
        }
        CHECK(outer == 0 || add(&keys, 0, 0) == RO_JSON_DUPLICATE_KEY);
        ro_json_keys_drop(&keys, 0);
        CHECK(keys.count == 0 && taken(&keys) == 0);
        CHECK(add(&keys, 0, 0) == RO_JSON_OK);
        ro_json_keys_free(&keys);
        free(doc);
    }
}

/* The seed decides where a key goes, all 16 bytes of it, and it is the
 * kernel's: the same in every table, and neither a constant nor an address
 * of the table. */
static void
test_seed(void)
{
    char *doc = document(1);
    ro_json_keys one;
    ro_json_keys two;
    ro_json_keys_init(&one, ro_slice_of(doc, KEY));
    ro_json_keys_init(&two, ro_slice_of(doc, KEY));
    CHECK(one.seed[0] == two.seed[0] && one.seed[1] == two.seed[1]);
    CHECK(memcmp(one.seed, (const void *)getauxval(AT_RANDOM), 16) == 0);
    CHECK((one.seed[0] | one.seed[1]) != 0);
    CHECK(add(&one, 0, 0) == RO_JSON_OK);
    for (int half = 0; half < 2; half++) {
        two.seed[half] ^= 1;
        CHECK(add(&two, 0, 0) == RO_JSON_OK);
        CHECK(one.stack[0].hash != two.stack[0].hash);
        ro_json_keys_drop(&two, 0);
        two.seed[half] ^= 1;
    }
    CHECK(add(&two, 0, 0) == RO_JSON_OK);
    CHECK(one.stack[0].hash == two.stack[0].hash);
    ro_json_keys_free(&one);
    ro_json_keys_free(&two);
    free(doc);
}

/* The hash that the table keeps of one key, under the bytes 0 to 15. */
static uint32_t
hash_of(ro_slice raw, bool escaped, uint32_t base)
{
    ro_json_keys keys;
    uint32_t hash;
    ro_json_keys_init(&keys, raw);
    keys.seed[0] = UINT64_C(0x0706050403020100);
    keys.seed[1] = UINT64_C(0x0f0e0d0c0b0a0908);
    CHECK(ro_json_keys_add(&keys, base, raw, escaped) == RO_JSON_OK);
    hash = keys.stack[0].hash;
    ro_json_keys_free(&keys);
    return hash;
}

/* SipHash-1-3 by its public test vectors: the text is the bytes 0, 1, 2 and so
 * on. Both halves of the hash are one, and the base turns it. An escaped
 * spelling of a text has the hash of the text. */
static void
test_known_answers(void)
{
    static const struct {
        size_t len;
        uint64_t hash;
    } rows[] = {
        {0, UINT64_C(0xabac0158050fc4dc)},  {1, UINT64_C(0xc9f49bf37d57ca93)},
        {7, UINT64_C(0xd3927d989bb11140)},  {8, UINT64_C(0x369095118d299a8e)},
        {9, UINT64_C(0x25a48eb36c063de4)},  {15, UINT64_C(0xd320d86d2a519956)},
        {16, UINT64_C(0xcc4fdd1a7d908b66)}, {63, UINT64_C(0x9d199062b7bbb3a8)},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t len = rows[i].len;
        uint32_t want = (uint32_t)(rows[i].hash ^ rows[i].hash >> 32);
        char *plain = malloc(len + 2);
        char *escaped = malloc(6 * len + 2);
        if (plain == NULL || escaped == NULL) {
            abort();
        }
        plain[0] = escaped[0] = '"';
        for (size_t nth = 0; nth < len; nth++) {
            plain[1 + nth] = (char)nth;
            char *escape = escaped + 1 + 6 * nth;
            memcpy(escape, "\\u00", 4);
            escape[4] = "0123456789abcdef"[nth / 16];
            escape[5] = "0123456789abcdef"[nth % 16];
        }
        plain[len + 1] = escaped[6 * len + 1] = '"';
        for (uint32_t base = 0; base < 3; base++) {
            uint32_t turned = want + base * 0x9e3779b1u;
            CHECK(hash_of(ro_slice_of(plain, len + 2), false, base) == turned);
            CHECK(hash_of(ro_slice_of(escaped, 6 * len + 2), true, base)
                  == turned);
        }
        free(plain);
        free(escaped);
    }
}

/* Two keys of one hash are still two: these are, under the bytes 0 to 15. */
static void
test_one_hash(void)
{
    static const char doc[] = "{\"6nkz\":1,\"3lq4\":2}";
    const ro_slice one = ro_slice_of(doc + 1, 6);
    const ro_slice other = ro_slice_of(doc + 10, 6);
    ro_json_keys keys;
    ro_json_keys_init(&keys, ro_slice_str(doc));
    keys.seed[0] = UINT64_C(0x0706050403020100);
    keys.seed[1] = UINT64_C(0x0f0e0d0c0b0a0908);
    CHECK(ro_json_keys_add(&keys, 0, one, false) == RO_JSON_OK);
    CHECK(ro_json_keys_add(&keys, 0, other, false) == RO_JSON_OK);
    CHECK(keys.stack[0].hash == keys.stack[1].hash);
    CHECK(ro_json_keys_add(&keys, 0, one, false) == RO_JSON_DUPLICATE_KEY);
    CHECK(ro_json_keys_add(&keys, 0, other, false) == RO_JSON_DUPLICATE_KEY);
    ro_json_keys_free(&keys);
}

static void
test_no_memory(void)
{
    enum { COUNT = RO_JSON_FEW_KEYS + 1 };
    char *doc = document(COUNT);
    for (size_t fail = 1; fail <= 2; fail++) {
        ro_json_keys keys;
        ro_json_keys_init(&keys, ro_slice_of(doc, COUNT * KEY));
        for (size_t nth = 0; nth < COUNT - 1; nth++) {
            CHECK(add(&keys, 0, nth) == RO_JSON_OK);
        }
        ro_alloc_fail_at(fail, 0);
        CHECK(add(&keys, 0, COUNT - 1) == RO_JSON_NO_MEMORY);
        ro_alloc_fail_at(0, 0);
        ro_json_keys_free(&keys);
    }
    CHECK(ro_alloc_live() == 0);
    free(doc);
}

int
main(void)
{
    test_growth();
    test_growth_is_bounded_by_the_rest();
    test_spread();
    test_drop();
    test_seed();
    test_known_answers();
    test_one_hash();
    test_no_memory();
    return check_end();
}
