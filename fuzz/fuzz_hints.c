/* An entry that is allowed must say so in a second, plainer reading; what is
 * not strict JSON, or is the same entry spoilt, must not be allowed. */
#include <stdint.h>
#include <stdlib.h>

#include "core/hints.h"
#include "core/json.h"
#include "core/limits.h"

static bool
is_literal(ro_slice object, const char *name, ro_json_type type)
{
    ro_slice value;
    return ro_json_find(object, name, &value) == 1
           && ro_json_type_of(value) == type;
}

static bool
is_absent_or_boolean(ro_slice object, const char *name)
{
    return ro_json_find(object, name, NULL) == 0
           || is_literal(object, name, RO_JSON_TRUE)
           || is_literal(object, name, RO_JSON_FALSE);
}

static bool
says_read_only(ro_slice entry)
{
    const ro_json_limits limits = {entry.len, RO_MAX_DEPTH, false};
    ro_slice annotations;
    if (ro_json_validate(entry, &limits, NULL) != RO_JSON_OK) {
        return false;
    }
    entry = ro_json_root(entry);
    if (ro_json_type_of(entry) != RO_JSON_OBJECT
        || ro_json_find(entry, "annotations", &annotations) != 1
        || ro_json_type_of(annotations) != RO_JSON_OBJECT) {
        return false;
    }
    return is_literal(annotations, "readOnlyHint", RO_JSON_TRUE)
           && !is_literal(annotations, "destructiveHint", RO_JSON_TRUE)
           && is_absent_or_boolean(annotations, "destructiveHint")
           && is_absent_or_boolean(annotations, "idempotentHint")
           && is_absent_or_boolean(annotations, "openWorldHint");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ro_slice entry = {(const char *)data, size};
    ro_hints_code code = ro_hints_judge(entry, RO_MAX_DEPTH);
    if ((code == RO_HINTS_READ_ONLY) != says_read_only(entry)) {
        abort();
    }
    if (code == RO_HINTS_DISAGREEMENT || code == RO_HINTS_NO_MEMORY
        || ro_hints_reason(code) == NULL) {
        abort();
    }
    return 0;
}
