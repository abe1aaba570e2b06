#include "core/json.h"

#include "core/json_keys.h"
#include "core/json_text.h"

static inline bool
is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline const char *
skip_space(const char *ptr, const char *end)
{
    while (ptr < end && is_space(*ptr)) {
        ptr++;
    }
    return ptr;
}

static const char *
container_end(const char *ptr, const char *end)
{
    size_t depth = 0;
    while (ptr < end) {
        switch (*ptr++) {
        case '"':
            ptr = ro_json_string_end(ptr, end);
            break;
        case '{':
        case '[':
            depth++;
            break;
        case '}':
        case ']':
            if (--depth == 0) {
                return ptr;
            }
            break;
        default:
            break;
        }
    }
    return end;
}

static const char *
scalar_end(const char *ptr, const char *end)
{
    while (ptr < end && *ptr != ',' && *ptr != ']' && *ptr != '}'
           && !is_space(*ptr)) {
        ptr++;
    }
    return ptr;
}

static const char *
value_end(const char *ptr, const char *end)
{
    switch (*ptr) {
    case '"':
        return ro_json_string_end(ptr + 1, end);
    case '{':
    case '[':
        return container_end(ptr, end);
    default:
        return scalar_end(ptr, end);
    }
}

ro_slice
ro_json_root(ro_slice doc)
{
    const char *end = NULL;
    const char *ptr = NULL;

    if (doc.len == 0) {
        return doc;
    }
    end = doc.ptr + doc.len;
    ptr = skip_space(doc.ptr, end);
    while (end > ptr && is_space(end[-1])) {
        end--;
    }
    return ro_slice_of(ptr, (size_t)(end - ptr));
}

ro_json_type
ro_json_type_of(ro_slice value)
{
    switch (value.len > 0 ? *value.ptr : 'n') {
    case '{':
        return RO_JSON_OBJECT;
    case '[':
        return RO_JSON_ARRAY;
    case '"':
        return RO_JSON_STRING;
    case 't':
        return RO_JSON_TRUE;
    case 'f':
        return RO_JSON_FALSE;
    case 'n':
        return RO_JSON_NULL;
    default:
        return RO_JSON_NUMBER_VALUE;
    }
}

ro_json_iter
ro_json_iter_of(ro_slice container)
{
    ro_json_iter iter = {container.ptr, container.ptr};
    ro_json_type type = ro_json_type_of(container);

    if (type == RO_JSON_OBJECT || type == RO_JSON_ARRAY) {
        iter.ptr = container.ptr + 1;
        iter.end = container.ptr + container.len - 1;
    }
    return iter;
}

bool
ro_json_next_item(ro_json_iter *iter, ro_slice *value)
{
    const char *ptr = skip_space(iter->ptr, iter->end);

    if (ptr < iter->end && *ptr == ',') {
        ptr = skip_space(ptr + 1, iter->end);
    }
    if (ptr == iter->end) {
        return false;
    }
    iter->ptr = value_end(ptr, iter->end);
    *value = ro_slice_of(ptr, (size_t)(iter->ptr - ptr));
    return true;
}

bool
ro_json_next_member(ro_json_iter *iter, ro_slice *key, ro_slice *value)
{
    if (!ro_json_next_item(iter, key)) {
        return false;
    }
    iter->ptr = skip_space(iter->ptr, iter->end);
    if (iter->ptr == iter->end || *iter->ptr != ':') {
        /* An array has no members. Asked for some, it has come to its end. */
        iter->ptr = iter->end;
        return false;
    }
    iter->ptr++;
    return ro_json_next_item(iter, value);
}

bool
ro_json_next_token(ro_json_iter *iter, ro_slice *token)
{
    const char *ptr = skip_space(iter->ptr, iter->end);

    if (ptr == iter->end) {
        return false;
    }
    switch (*ptr) {
    case '{':
    case '}':
    case '[':
    case ']':
    case ':':
    case ',':
        iter->ptr = ptr + 1;
        break;
    default:
        iter->ptr = value_end(ptr, iter->end);
        break;
    }
    *token = ro_slice_of(ptr, (size_t)(iter->ptr - ptr));
    return true;
}

size_t
ro_json_find(ro_slice object, const char *name, ro_slice *value)
{
    ro_json_iter iter = ro_json_iter_of(object);
    ro_slice text = ro_slice_str(name);
    ro_slice key;
    ro_slice member;
    size_t found = 0;

    while (ro_json_next_member(&iter, &key, &member)) {
        if (ro_json_string_is(key, text)) {
            found++;
            if (value != NULL) {
                *value = member;
            }
        }
    }
    return found;
}

size_t
ro_json_count(ro_slice container)
{
    ro_json_iter iter = ro_json_iter_of(container);
    ro_slice key;
    ro_slice value;
    size_t count = 0;

    if (ro_json_type_of(container) == RO_JSON_OBJECT) {
        while (ro_json_next_member(&iter, &key, &value)) {
            count++;
        }
        return count;
    }
    while (ro_json_next_item(&iter, &value)) {
        count++;
    }
    return count;
}

int
ro_json_has_duplicate_keys(ro_slice object)
{
    ro_json_iter iter = ro_json_iter_of(object);
    ro_json_code code = RO_JSON_OK;
    ro_json_keys keys;
    ro_slice key;
    ro_slice value;

    if (object.len > RO_JSON_KEYS_MAX_DOC) {
        return -1;
    }
    ro_json_keys_init(&keys, object);
    while (code == RO_JSON_OK && ro_json_next_member(&iter, &key, &value)) {
        bool escaped = memchr(key.ptr, '\\', key.len) != NULL;
        code = ro_json_keys_add(&keys, 0, key, escaped);
    }
    ro_json_keys_free(&keys);
    return code == RO_JSON_OK ? 0 : code == RO_JSON_DUPLICATE_KEY ? 1 : -1;
}
