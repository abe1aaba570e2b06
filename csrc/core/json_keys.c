#include "core/json_keys.h"

#include "core/alloc.h"
#include "core/json_text.h"

#include <sys/auxv.h>

/* ---- SipHash-1-3 ---- */

typedef struct sip {
    uint64_t v0, v1, v2, v3;
} sip;

static inline uint64_t
rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void
sip_round(sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v2 = rotate(s->v2, 32);
}

static inline void
sip_block(sip *s, const char block[8])
{
    uint64_t word;
    memcpy(&word, block, sizeof(word));
    s->v3 ^= word;
    sip_round(s);
    s->v0 ^= word;
}

/* The hash of what the raw string reads as, so that two spellings of one
 * key have one hash. */
static uint64_t
hash_text(const uint64_t seed[2], ro_slice raw, bool escaped)
{
    const char *ptr = raw.ptr + 1;
    const char *end = raw.ptr + raw.len - 1;
    sip s = {seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du,
             seed[0] ^ 0x6c7967656e657261u, seed[1] ^ 0x7465646279746573u};
    char block[8] = {0};
    size_t total = 0;

    if (!escaped) {
        total = (size_t)(end - ptr);
        for (; end - ptr >= 8; ptr += 8) {
            sip_block(&s, ptr);
        }
        memcpy(block, ptr, (size_t)(end - ptr));
    }
    else {
        while (ptr < end) {
            char bytes[4];
            size_t len = ro_json_read_char(&ptr, bytes);
            for (size_t i = 0; i < len; i++) {
                block[total++ % 8] = bytes[i];
                if (total % 8 == 0) {
                    sip_block(&s, block);
                }
            }
        }
        memset(block + total % 8, 0, 8 - total % 8);
    }
    block[7] = (char)(total & 0xff);
    sip_block(&s, block);
    s.v2 ^= 0xff;
    sip_round(&s);
    sip_round(&s);
    sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/* 16 bytes that the kernel drew for this process: secret, no system call.
 * Where they are missing, address randomisation is what is left. */
static void
take_seed(uint64_t seed[2], const void *here)
{
    const void *random = (const void *)getauxval(AT_RANDOM);
    seed[0] = (uint64_t)(uintptr_t)here;
    seed[1] = (uint64_t)(uintptr_t)&take_seed;
    if (random != NULL) {
        memcpy(seed, random, 16);
    }
}

/* ---- the table ---- */

void
ro_json_keys_init(ro_json_keys *keys, ro_slice doc)
{
    keys->doc = doc;
    keys->stack = keys->few;
    keys->slots = keys->few_slots;
    keys->count = 0;
    keys->cap = RO_JSON_FEW_KEYS;
    keys->slot_count = RO_JSON_FEW_SLOTS;
    memset(keys->few_slots, 0, sizeof(keys->few_slots));
    take_seed(keys->seed, keys);
}

void
ro_json_keys_free(ro_json_keys *keys)
{
    if (keys->stack != keys->few) {
        ro_free(keys->stack);
    }
    if (keys->slots != keys->few_slots) {
        ro_free(keys->slots);
    }
}

/* The hash as a fraction of the table. The number of slots follows the
 * document's need, so it is no power of two that a mask would serve. */
static inline uint32_t
first_slot(const ro_json_keys *keys, uint32_t hash)
{
    return (uint32_t)((uint64_t)hash * keys->slot_count >> 32);
}

static inline uint32_t
next_slot(const ro_json_keys *keys, uint32_t slot)
{
    return slot + 1 == keys->slot_count ? 0 : slot + 1;
}

static bool
grow_stack(ro_json_keys *keys, uint32_t cap)
{
    ro_json_key *stack = keys->stack == keys->few ? NULL : keys->stack;

    stack = ro_realloc(stack, cap * sizeof(*stack));
    if (stack == NULL) {
        return false;
    }
    if (keys->stack == keys->few) {
        memcpy(stack, keys->few, keys->count * sizeof(*stack));
    }
    keys->stack = stack;
    return true;
}

/* Twice the room, but no more keys than the rest of the document can hold, so
 * that 8 MiB of keys cost 14 MiB and not the next power of two. The old slots
 * are freed before the new ones are asked for, because the peak counts: the
 * stack alone is enough to fill the new slots. A failure leaves no slots, and
 * the scan ends there. Two thirds of the slots are full at most, which linear
 * probing bears. */
static bool
grow(ro_json_keys *keys, const char *rest)
{
    /* A key costs four bytes at least: {"": or "":1 and a comma. */
    size_t most
        = keys->count + (size_t)(keys->doc.ptr + keys->doc.len - rest) / 4 + 1;
    size_t cap = (size_t)keys->cap * 2 < most ? (size_t)keys->cap * 2 : most;
    size_t slot_count = cap + cap / 2;

    if (!grow_stack(keys, (uint32_t)cap)) {
        return false;
    }
    if (keys->slots != keys->few_slots) {
        ro_free(keys->slots);
    }
    keys->slots = ro_calloc(slot_count, sizeof(*keys->slots));
    if (keys->slots == NULL) {
        return false;
    }
    keys->cap = (uint32_t)cap;
    keys->slot_count = (uint32_t)slot_count;
    for (uint32_t i = 0; i < keys->count; i++) {
        uint32_t slot = first_slot(keys, keys->stack[i].hash);
        while (keys->slots[slot] != 0) {
            slot = next_slot(keys, slot);
        }
        keys->slots[slot] = i + 1;
    }
    return true;
}

ro_json_code
ro_json_keys_add(ro_json_keys *keys, uint32_t base, ro_slice raw, bool escaped)
{
    uint64_t wide = hash_text(keys->seed, raw, escaped);
    /* The base keeps one name in many nested objects from colliding. */
    uint32_t hash = (uint32_t)(wide ^ wide >> 32) + base * 0x9e3779b1u;
    uint32_t slot;

    if (keys->count == keys->cap && !grow(keys, raw.ptr + raw.len)) {
        return RO_JSON_NO_MEMORY;
    }
    for (slot = first_slot(keys, hash); keys->slots[slot] != 0;
         slot = next_slot(keys, slot)) {
        uint32_t index = keys->slots[slot] - 1;
        const ro_json_key *key = &keys->stack[index];
        /* Below the base are keys of the objects around this one. */
        if (key->hash == hash && index >= base
            && ro_json_same_text(keys->doc.ptr + key->offset + 1,
                                 raw.ptr + 1)) {
            return RO_JSON_DUPLICATE_KEY;
        }
    }
    keys->stack[keys->count].hash = hash;
    keys->stack[keys->count].offset = (uint32_t)(raw.ptr - keys->doc.ptr);
    keys->slots[slot] = ++keys->count;
    return RO_JSON_OK;
}

void
ro_json_keys_drop(ro_json_keys *keys, uint32_t base)
{
    /* The outermost object: emptying a table that is well filled costs less
     * than finding its keys again one by one. */
    if (base == 0 && keys->count > keys->slot_count / 8) {
        memset(keys->slots, 0, keys->slot_count * sizeof(*keys->slots));
        keys->count = 0;
    }
    /* The newest key goes first. No key that is left was ever put past it, so
     * its slot can simply be emptied: no probe has to step over it. */
    while (keys->count > base) {
        uint32_t slot = first_slot(keys, keys->stack[keys->count - 1].hash);
        while (keys->slots[slot] != keys->count) { /* 1 + its index */
            slot = next_slot(keys, slot);
        }
        keys->slots[slot] = 0;
        keys->count--;
    }
}
