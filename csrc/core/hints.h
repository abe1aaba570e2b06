/* Whether a tool entry, as the server sent it, says that it is read-only.
 *
 * Allowed only if annotations is an object that appears once, readOnlyHint
 * is the literal true, destructiveHint is absent or the literal false,
 * every standard hint that is present is a literal Boolean (null is none),
 * and no key of the entry itself, nor any within annotations, is duplicated
 * after unescaping (a schema's own keys are not hints). title and
 * unknown keys do not matter.
 *
 * The scanner judges. cJSON then reads the hints of an entry that the scanner
 * would allow, and if the two do not see the same hints the entry is refused.
 * Thread safe. Memory beside the scanner's is a few KiB, whatever the entry's
 * size.
 */
#ifndef RO_CORE_HINTS_H
#define RO_CORE_HINTS_H

#include "core/slice.h"

/* The first that fits decides: id, word, what the server sent, what to do. */
#define RO_HINTS(X)                                                           \
    /* the only one that allows */                                            \
    X(READ_ONLY, "read_only", "hints that say the tool only reads",           \
      "call it")                                                              \
    X(MALFORMED, "malformed", "a tool entry that is not strict JSON",         \
      "mend the server's JSON")                                               \
    X(TOO_DEEP, "too_deep", "a tool entry of more than 64 levels",            \
      "flatten the tool's schema")                                            \
    X(ENTRY_NOT_OBJECT, "entry_not_object",                                   \
      "an entry of the list that is no object", "mend the server's list")     \
    X(ANNOTATIONS_DUPLICATED, "annotations_duplicated", "annotations twice",  \
      "let the server send annotations once")                                 \
    X(DUPLICATE_KEY, "duplicate_key",                                         \
      "a key of the tool, or within its annotations, twice",                  \
      "let the server send the key once; its escaped spelling is the same "   \
      "key")                                                                  \
    X(ANNOTATIONS_MISSING, "annotations_missing", "no annotations",           \
      "if the tool only reads, add "                                          \
      "annotations=ToolAnnotations(readOnlyHint=True) on the server")         \
    X(ANNOTATIONS_NOT_OBJECT, "annotations_not_object",                       \
      "annotations of another type", "let the server send an object")         \
    X(READ_ONLY_MISSING, "read_only_missing",                                 \
      "annotations without readOnlyHint",                                     \
      "if the tool only reads, add readOnlyHint=True to its "                 \
      "ToolAnnotations")                                                      \
    X(READ_ONLY_NOT_BOOLEAN, "read_only_not_boolean",                         \
      "a readOnlyHint that is no Boolean, such as \"yes\" or 1",              \
      "let the server send true or false")                                    \
    X(DESTRUCTIVE_NOT_BOOLEAN, "destructive_not_boolean",                     \
      "a destructiveHint that is no Boolean",                                 \
      "let the server send true or false, or leave the hint out")             \
    X(IDEMPOTENT_NOT_BOOLEAN, "idempotent_not_boolean",                       \
      "an idempotentHint that is no Boolean",                                 \
      "let the server send true or false, or leave the hint out")             \
    X(OPEN_WORLD_NOT_BOOLEAN, "open_world_not_boolean",                       \
      "an openWorldHint that is no Boolean",                                  \
      "let the server send true or false, or leave the hint out")             \
    X(READ_ONLY_NOT_TRUE, "read_only_not_true", "readOnlyHint false",         \
      "nothing, if the tool writes; if it only reads, declare it with "       \
      "ToolAnnotations(readOnlyHint=True)")                                   \
    X(DESTRUCTIVE, "destructive",                                             \
      "destructiveHint true beside readOnlyHint true",                        \
      "if the tool only reads, leave destructiveHint out or send false")      \
    /* the two readers see different hints */                                 \
    X(DISAGREEMENT, "disagreement", "hints that two readers see differently", \
      "let the server send plain keys and values; report it")                 \
    X(NO_MEMORY, "no_memory", "hints that were not read: no memory was left", \
      "give the process more memory")

#define X(id, ...) RO_HINTS_##id,
typedef enum ro_hints_code { RO_HINTS(X) RO_HINTS_CODES } ro_hints_code;
#undef X

/* The first code above that fits. tool_entry may be any bytes: grammar and
 * depth (in levels; the entry itself is 1) are checked here again. */
ro_hints_code ro_hints_judge(ro_slice tool_entry, unsigned max_depth);

/* Static texts; a value outside the enum reads as MALFORMED. */
const char *ro_hints_reason(ro_hints_code code);
const char *ro_hints_text(ro_hints_code code);   /* what the server sent */
const char *ro_hints_remedy(ro_hints_code code); /* what to do about it */

#endif
