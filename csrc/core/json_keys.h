/* Finds a key that comes twice in one object. It holds the keys of all objects
 * that are open at one time. Inner header of the json_*.c files.
 *
 * One stack of keys and one hash table over it. Objects close in the
 * opposite order of opening, so an object's keys are the top of the stack
 * from the base it noted when it opened, and removing the newest first keeps
 * linear probing whole without tombstones.
 *
 * Flooding: the hash is SipHash-1-3 under the kernel's per-process random
 * bytes, so a peer cannot choose keys that collide. Memory: 14 bytes a key
 * (at most 14 MiB for the 1,049,944 keys that 8 MiB can hold), nothing on
 * the heap up to RO_JSON_FEW_KEYS keys open together.
 */
#ifndef RO_CORE_JSON_KEYS_H
#define RO_CORE_JSON_KEYS_H

#include "core/json.h"

#include <stdint.h>

#define RO_JSON_FEW_KEYS 64u
#define RO_JSON_FEW_SLOTS 128u
/* bytes: the longest document that can be looked at; offsets have 32 bits */
#define RO_JSON_KEYS_MAX_DOC UINT32_MAX

typedef struct ro_json_key {
    uint32_t hash;
    uint32_t offset; /* of the opening quote in the document */
} ro_json_key;

typedef struct ro_json_keys {
    ro_slice doc;
    uint64_t seed[2];
    ro_json_key *stack;
    uint32_t *slots; /* 0 is empty, else 1 + index in the stack */
    uint32_t count;
    uint32_t cap;
    uint32_t slot_count;
    ro_json_key few[RO_JSON_FEW_KEYS];
    uint32_t few_slots[RO_JSON_FEW_SLOTS];
} ro_json_keys;

/* doc must outlive keys and have at most RO_JSON_KEYS_MAX_DOC bytes. keys must
 * not be moved or copied afterwards. */
void ro_json_keys_init(ro_json_keys *keys, ro_slice doc);
/* raw is a slice of doc, with its quotes; escaped says whether it holds a
 * backslash. RO_JSON_OK, RO_JSON_DUPLICATE_KEY or RO_JSON_NO_MEMORY. */
ro_json_code ro_json_keys_add(ro_json_keys *keys, uint32_t base, ro_slice raw,
                              bool escaped);
/* The object that opened at base is closed. */
void ro_json_keys_drop(ro_json_keys *keys, uint32_t base);
/* Once, and nothing after it. */
void ro_json_keys_free(ro_json_keys *keys);

#endif
