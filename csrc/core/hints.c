#include "core/hints.h"

#include "core/doc.h"
#include "core/json.h"

enum {
    READ_ONLY,
    DESTRUCTIVE,
    IDEMPOTENT,
    OPEN_WORLD,
    N_HINTS,
};

static const char *const hint_names[N_HINTS] = {
    [READ_ONLY] = "readOnlyHint",
    [DESTRUCTIVE] = "destructiveHint",
    [IDEMPOTENT] = "idempotentHint",
    [OPEN_WORLD] = "openWorldHint",
};

static const ro_hints_code not_boolean[N_HINTS] = {
    [READ_ONLY] = RO_HINTS_READ_ONLY_NOT_BOOLEAN,
    [DESTRUCTIVE] = RO_HINTS_DESTRUCTIVE_NOT_BOOLEAN,
    [IDEMPOTENT] = RO_HINTS_IDEMPOTENT_NOT_BOOLEAN,
    [OPEN_WORLD] = RO_HINTS_OPEN_WORLD_NOT_BOOLEAN,
};

static const char *const reasons[RO_HINTS_CODES] = {
    [RO_HINTS_READ_ONLY] = "read_only",
    [RO_HINTS_MALFORMED] = "malformed",
    [RO_HINTS_TOO_DEEP] = "too_deep",
    [RO_HINTS_ENTRY_NOT_OBJECT] = "entry_not_object",
    [RO_HINTS_ANNOTATIONS_DUPLICATED] = "annotations_duplicated",
    [RO_HINTS_DUPLICATE_KEY] = "duplicate_key",
    [RO_HINTS_ANNOTATIONS_MISSING] = "annotations_missing",
    [RO_HINTS_ANNOTATIONS_NOT_OBJECT] = "annotations_not_object",
    [RO_HINTS_READ_ONLY_MISSING] = "read_only_missing",
    [RO_HINTS_READ_ONLY_NOT_BOOLEAN] = "read_only_not_boolean",
    [RO_HINTS_DESTRUCTIVE_NOT_BOOLEAN] = "destructive_not_boolean",
    [RO_HINTS_IDEMPOTENT_NOT_BOOLEAN] = "idempotent_not_boolean",
    [RO_HINTS_OPEN_WORLD_NOT_BOOLEAN] = "open_world_not_boolean",
    [RO_HINTS_READ_ONLY_NOT_TRUE] = "read_only_not_true",
    [RO_HINTS_DESTRUCTIVE] = "destructive",
    [RO_HINTS_DISAGREEMENT] = "disagreement",
    [RO_HINTS_NO_MEMORY] = "no_memory",
};

const char *
ro_hints_reason(ro_hints_code code)
{
    if ((unsigned)code >= RO_HINTS_CODES) {
        return reasons[RO_HINTS_MALFORMED];
    }
    return reasons[code];
}

/* The entry's form, and its annotations. Grammar comes first, so that
 * duplicates are looked for in what is known to be JSON. */
static ro_hints_code
read_entry(ro_slice bytes, unsigned max_depth, ro_slice *annotations)
{
    ro_json_limits limits = {bytes.len, max_depth, true};
    ro_json_code code = ro_json_validate(bytes, &limits, NULL);
    if (code != RO_JSON_OK) {
        return code == RO_JSON_DEPTH       ? RO_HINTS_TOO_DEEP
               : code == RO_JSON_NO_MEMORY ? RO_HINTS_NO_MEMORY
                                           : RO_HINTS_MALFORMED;
    }
    ro_slice entry = ro_json_root(bytes);
    if (ro_json_type_of(entry) != RO_JSON_OBJECT) {
        return RO_HINTS_ENTRY_NOT_OBJECT;
    }
    size_t found = ro_json_find(entry, "annotations", annotations);
    if (found > 1) {
        return RO_HINTS_ANNOTATIONS_DUPLICATED;
    }
    limits.keep_duplicates = false;
    code = ro_json_validate(bytes, &limits, NULL);
    if (code != RO_JSON_OK) {
        return code == RO_JSON_DUPLICATE_KEY ? RO_HINTS_DUPLICATE_KEY
                                             : RO_HINTS_NO_MEMORY;
    }
    if (found == 0) {
        return RO_HINTS_ANNOTATIONS_MISSING;
    }
    return ro_json_type_of(*annotations) == RO_JSON_OBJECT
               ? RO_HINTS_READ_ONLY
               : RO_HINTS_ANNOTATIONS_NOT_OBJECT;
}

static void
read_hints(ro_slice annotations, ro_doc_value *hints)
{
    for (int i = 0; i < N_HINTS; i++) {
        ro_slice value = {NULL, 0};
        if (ro_json_find(annotations, hint_names[i], &value) == 0) {
            hints[i] = RO_DOC_ABSENT;
            continue;
        }
        ro_json_type type = ro_json_type_of(value);
        hints[i] = type == RO_JSON_TRUE    ? RO_DOC_TRUE
                   : type == RO_JSON_FALSE ? RO_DOC_FALSE
                                           : RO_DOC_OTHER;
    }
}

static ro_hints_code
judge_hints(const ro_doc_value *hints)
{
    if (hints[READ_ONLY] == RO_DOC_ABSENT) {
        return RO_HINTS_READ_ONLY_MISSING;
    }
    for (int i = 0; i < N_HINTS; i++) {
        if (hints[i] == RO_DOC_OTHER) {
            return not_boolean[i];
        }
    }
    if (hints[READ_ONLY] != RO_DOC_TRUE) {
        return RO_HINTS_READ_ONLY_NOT_TRUE;
    }
    if (hints[DESTRUCTIVE] == RO_DOC_TRUE) {
        return RO_HINTS_DESTRUCTIVE;
    }
    return RO_HINTS_READ_ONLY;
}

/* Only what the scanner would allow is read a second time. */
static ro_hints_code
cross_check(ro_slice annotations, const ro_doc_value *hints)
{
    ro_doc_value again[N_HINTS] = {RO_DOC_ABSENT};
    if (ro_doc_lookup(annotations, hint_names, N_HINTS, again) != RO_DOC_OK) {
        return RO_HINTS_DISAGREEMENT;
    }
    for (int i = 0; i < N_HINTS; i++) {
        if (again[i] != hints[i]) {
            return RO_HINTS_DISAGREEMENT;
        }
    }
    return RO_HINTS_READ_ONLY;
}

ro_hints_code
ro_hints_judge(ro_slice tool_entry, unsigned max_depth)
{
    ro_slice annotations = {NULL, 0};
    ro_hints_code code = read_entry(tool_entry, max_depth, &annotations);
    if (code != RO_HINTS_READ_ONLY) {
        return code;
    }
    ro_doc_value hints[N_HINTS] = {RO_DOC_ABSENT};
    read_hints(annotations, hints);
    code = judge_hints(hints);
    if (code != RO_HINTS_READ_ONLY) {
        return code;
    }
    return cross_check(annotations, hints);
}
