/* Whether a tool entry, as the server sent it, says that it is read-only.
 *
 * Allowed only if annotations is an object that appears once, readOnlyHint
 * is the literal true, destructiveHint is absent or the literal false,
 * every standard hint that is present is a literal Boolean (null is none),
 * and no key of the entry itself, nor any within annotations, is duplicated
 * after unescaping (a schema's own keys are not hints). title and
 * unknown keys do not matter.
 *
 * The scanner judges; what it would allow cJSON reads once more, and if the
 * two do not see the same hints the entry is refused. Thread safe. Memory
 * beside the scanner's is a few KiB, whatever the entry's size.
 */
#ifndef RO_CORE_HINTS_H
#define RO_CORE_HINTS_H

#include "core/slice.h"

typedef enum ro_hints_code {
    RO_HINTS_READ_ONLY = 0, /* the only one that allows */
    RO_HINTS_MALFORMED,     /* not strict JSON */
    RO_HINTS_TOO_DEEP,
    RO_HINTS_ENTRY_NOT_OBJECT,
    RO_HINTS_ANNOTATIONS_DUPLICATED,
    RO_HINTS_DUPLICATE_KEY, /* of the entry, or within annotations */
    RO_HINTS_ANNOTATIONS_MISSING,
    RO_HINTS_ANNOTATIONS_NOT_OBJECT,
    RO_HINTS_READ_ONLY_MISSING,
    RO_HINTS_READ_ONLY_NOT_BOOLEAN,
    RO_HINTS_DESTRUCTIVE_NOT_BOOLEAN,
    RO_HINTS_IDEMPOTENT_NOT_BOOLEAN,
    RO_HINTS_OPEN_WORLD_NOT_BOOLEAN,
    RO_HINTS_READ_ONLY_NOT_TRUE,
    RO_HINTS_DESTRUCTIVE,
    RO_HINTS_DISAGREEMENT, /* the two readers see different hints */
    RO_HINTS_NO_MEMORY,
} ro_hints_code;

#define RO_HINTS_CODES (RO_HINTS_NO_MEMORY + 1)

/* tool_entry may be any bytes: grammar and depth (levels, the entry itself
 * is 1) are checked here again. The first code above that fits. */
ro_hints_code ro_hints_judge(ro_slice tool_entry, unsigned max_depth);

/* Static, lower case: "read_only", "annotations_missing", ... */
const char *ro_hints_reason(ro_hints_code code);

#endif
