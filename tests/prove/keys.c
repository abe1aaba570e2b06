/* sources: core/json_text.c
 * options: --unwind 10
 *
 * A table of keys that is full grows to room for one more, never beyond what
 * the rest of the document can need, and finds every key that it had:
 * a table of 2 keys with any hashes, any rest of up to 8 bytes. */
#include "prove.h"

#include "core/json_keys.c"

#define COUNT 2
#define REST 8

/* Blocks of the sizes that can be asked for, each of a size that CBMC knows.
 */
static void *
block(size_t size)
{
    void *found = size == 12   ? malloc(12)
                  : size == 16 ? malloc(16)
                  : size == 24 ? malloc(24)
                               : malloc(32);
    CLAIM(size == 12 || size == 16 || size == 24 || size == 32);
    ASSUME(found != NULL);
    return found;
}

void *
ro_realloc(void *old, size_t size)
{
    CLAIM(old == NULL); /* the first growth */
    return block(size);
}

void *
ro_calloc(size_t count, size_t size)
{
    uint32_t *zeroed = block(count * size);
    for (size_t i = 0; i < count; i++) {
        zeroed[i] = 0;
    }
    return zeroed;
}

void
ro_free(void *old)
{
    free(old);
}

unsigned long
getauxval(unsigned long type)
{
    (void)type;
    return 0;
}

void
prove(void)
{
    char document[4 * COUNT + REST];
    size_t rest = any_size(REST);
    ro_json_keys keys;

    ro_json_keys_init(&keys, ro_slice_of(document, 4 * COUNT + rest));
    keys.count = keys.cap = COUNT;
    keys.slot_count = COUNT + COUNT / 2;
    for (uint32_t i = 0; i < COUNT; i++) {
        keys.few[i].hash = nondet_u32();
        keys.few[i].offset = nondet_u32();
    }

    bool grown = grow(&keys, document + 4 * COUNT);

    CLAIM(grown && keys.cap > COUNT && keys.slot_count > COUNT);
    CLAIM(keys.cap <= COUNT + rest / 4 + 1 && keys.cap <= 2 * COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        CLAIM(keys.stack[i].hash == keys.few[i].hash
              && keys.stack[i].offset == keys.few[i].offset);
        uint32_t slot = first_slot(&keys, keys.stack[i].hash);
        CLAIM(slot < keys.slot_count);
        while (keys.slots[slot] != i + 1 && keys.slots[slot] != 0) {
            slot = next_slot(&keys, slot);
        }
        CLAIM(keys.slots[slot] == i + 1 && !IS_TWIN);
    }
    ro_json_keys_free(&keys);
}
