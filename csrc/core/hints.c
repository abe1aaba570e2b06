#include "core/hints.h"

#include "core/doc.h"
#include "core/json.h"
#include "core/json_text.h"
#include "core/table.h"

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

static const struct {
    const char *word;
    const char *text;
    const char *remedy;
} rows[RO_HINTS_CODES] = {
#define X(id, word, text, remedy) {word, text, remedy},
    RO_HINTS(X)
#undef X
};

static size_t
index_of(ro_hints_code code)
{
    return ro_row((unsigned)code, RO_HINTS_CODES, RO_HINTS_MALFORMED);
}

const char *
ro_hints_reason(ro_hints_code code)
{
    return rows[index_of(code)].word;
}

const char *
ro_hints_text(ro_hints_code code)
{
    return rows[index_of(code)].text;
}

const char *
ro_hints_remedy(ro_hints_code code)
{
    return rows[index_of(code)].remedy;
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
    int twice = ro_json_has_duplicate_keys(entry);
    if (twice < 0) {
        return RO_HINTS_NO_MEMORY;
    }
    if (twice > 0) {
        return RO_HINTS_DUPLICATE_KEY;
    }
    if (found == 0) {
        return RO_HINTS_ANNOTATIONS_MISSING;
    }
    limits.keep_duplicates = false;
    code = ro_json_validate(*annotations, &limits, NULL);
    if (code != RO_JSON_OK) {
        return code == RO_JSON_DUPLICATE_KEY ? RO_HINTS_DUPLICATE_KEY
                                             : RO_HINTS_NO_MEMORY;
    }
    return ro_json_type_of(*annotations) == RO_JSON_OBJECT
               ? RO_HINTS_READ_ONLY
               : RO_HINTS_ANNOTATIONS_NOT_OBJECT;
}

static void
read_hints(ro_slice annotations, ro_doc_value *hints)
{
    for (int i = 0; i < N_HINTS; i++) {
        ro_slice value;
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

/* In the order of the table: an odd value is named before a false one. */
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

/* ---- the second reader ----
 *
 * A fault of the scanner must not open the gate on its own. So cJSON, which
 * shares no code with it, reads the hints once more, and the two have to see
 * the same. cJSON is not trusted with the server's bytes: it gets flat
 * objects that are made of the keys that may be hints, as they were sent, and
 * of literals.
 */

/* Members that cJSON reads at a time: a tree of all of them would cost many
 * times the bytes of an entry made of small members. */
#define BATCH 64u
/* Bytes: the longest hint name with every character escaped, and quotes. */
#define MAX_RAW_KEY (15u * 6u + 2u)
/* Bytes: key, colon, literal, comma. */
#define MAX_BATCH (2u + BATCH * (MAX_RAW_KEY + 7u))

static bool
holds_nul(ro_slice raw)
{
    const char *ptr = raw.ptr;
    const char *end = raw.ptr + raw.len;
    while (ptr < end) {
        char bytes[4];
        if (ro_json_read_char(&ptr, bytes) == 1 && bytes[0] == '\0') {
            return true;
        }
    }
    return false;
}

/* A key that is too long or holds a NUL is no hint for any reader but one
 * that ends keys at a NUL, as cJSON does. */
static bool
may_be_hint(ro_slice raw)
{
    return raw.len <= MAX_RAW_KEY && !holds_nul(raw);
}

/* Any value but a Boolean goes as null: cJSON then cannot meet depth, numbers
 * or strings, and it reads as "other" all the same. */
static ro_buf_code
put_member(ro_buf *batch, ro_slice key, ro_slice value)
{
    ro_json_type type = ro_json_type_of(value);
    bool literal = type == RO_JSON_TRUE || type == RO_JSON_FALSE;
    ro_buf_code code = ro_buf_append_char(batch, batch->len ? ',' : '{');
    if (code == RO_BUF_OK) {
        code = ro_buf_append_slice(batch, key);
    }
    if (code == RO_BUF_OK) {
        code = ro_buf_append_char(batch, ':');
    }
    if (code == RO_BUF_OK) {
        code = ro_buf_append_slice(batch,
                                   literal ? value : ro_slice_str("null"));
    }
    return code;
}

/* Adds what cJSON sees in the batch, and empties it. */
static ro_hints_code
read_batch(ro_buf *batch, ro_doc_value *again)
{
    ro_doc_value seen[N_HINTS] = {RO_DOC_ABSENT};
    if (batch->len == 0) {
        return RO_HINTS_READ_ONLY;
    }
    if (ro_buf_append_char(batch, '}') != RO_BUF_OK) {
        return RO_HINTS_NO_MEMORY;
    }
    ro_doc_code code
        = ro_doc_lookup(ro_buf_slice(batch), hint_names, N_HINTS, seen);
    if (code != RO_DOC_OK) {
        return code == RO_DOC_NO_MEMORY ? RO_HINTS_NO_MEMORY
                                        : RO_HINTS_DISAGREEMENT;
    }
    for (int i = 0; i < N_HINTS; i++) {
        /* A hint in two batches would be a duplicate key, which the scanner
         * has refused: "other" makes the two readers disagree. */
        if (seen[i] != RO_DOC_ABSENT) {
            again[i] = again[i] == RO_DOC_ABSENT ? seen[i] : RO_DOC_OTHER;
        }
    }
    ro_buf_clear(batch);
    return RO_HINTS_READ_ONLY;
}

static ro_hints_code
read_again(ro_slice annotations, ro_buf *batch, ro_doc_value *again)
{
    unsigned count = 0;
    ro_json_iter iter = ro_json_iter_of(annotations);
    ro_slice key;
    ro_slice value;
    while (ro_json_next_member(&iter, &key, &value)) {
        if (!may_be_hint(key)) {
            continue;
        }
        if (put_member(batch, key, value) != RO_BUF_OK) {
            return RO_HINTS_NO_MEMORY;
        }
        if (++count % BATCH == 0) {
            ro_hints_code code = read_batch(batch, again);
            if (code != RO_HINTS_READ_ONLY) {
                return code;
            }
        }
    }
    return read_batch(batch, again);
}

/* Only what the scanner would allow is read a second time. */
static ro_hints_code
cross_check(ro_slice annotations, const ro_doc_value *hints)
{
    ro_doc_value again[N_HINTS] = {RO_DOC_ABSENT};
    ro_buf batch;
    ro_buf_init(&batch, MAX_BATCH);
    ro_hints_code code = read_again(annotations, &batch, again);
    ro_buf_free(&batch);
    for (int i = 0; code == RO_HINTS_READ_ONLY && i < N_HINTS; i++) {
        if (again[i] != hints[i]) {
            code = RO_HINTS_DISAGREEMENT;
        }
    }
    return code;
}

ro_hints_code
ro_hints_judge(ro_slice tool_entry, unsigned max_depth)
{
    ro_slice annotations;
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
