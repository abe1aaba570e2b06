#include "mcp/shape.h"

#include "core/json.h"
#include "core/limits.h"

/* One value on its way into a document. */
typedef struct work {
    ro_shaper *up;
    ro_budget *budget;
    size_t paid; /* bytes of the document that the budget knows of */
} work;

static void write_value(work *w, ro_slice value, const ro_shape *shape);

static void
refuse(ro_shaper *up, ro_reduce_code code)
{
    up->refused = code;
    up->to.code = RO_BUF_TOO_LARGE; /* nothing more is written */
}

static bool
is_well(const work *w)
{
    return w->up->to.code == RO_BUF_OK;
}

static void
spend(size_t *left, size_t amount, work *w)
{
    if (!is_well(w)) {
        return;
    }
    if (amount > *left) {
        refuse(w->up, RO_REDUCE_OVER_BUDGET);
        return;
    }
    *left -= amount;
}

static void
spend_value(work *w)
{
    spend(&w->budget->values, 1, w);
}

/* Take what was written since from the budget. */
static void
pay(work *w)
{
    size_t len = w->up->to.out->len;
    if (is_well(w)) {
        spend(&w->budget->bytes, len - w->paid, w);
        w->paid = len;
    }
}

/* ---- numbers ---- */

static size_t
integer_part(ro_slice number)
{
    size_t len = 0;
    while (len < number.len
           && (number.ptr[len] == '-'
               || (number.ptr[len] >= '0' && number.ptr[len] <= '9'))) {
        len++;
    }
    return len;
}

bool
ro_shape_is_readable(ro_slice value)
{
    ro_json_iter iter = {value.ptr, value.ptr + value.len};
    ro_slice token;
    while (ro_json_next_token(&iter, &token)) {
        if (token.len > RO_MAX_NUMBER
            && ro_json_type_of(token) == RO_JSON_NUMBER_VALUE
            && integer_part(token) > RO_MAX_NUMBER) {
            return false;
        }
    }
    return true;
}

/* ---- one value ---- */

static bool
is_punctuation(char c)
{
    return c == '}' || c == ']' || c == ':' || c == ',';
}

/* Values and keys of a value, and its bytes without white space. */
static ro_budget
cost_of(ro_slice value)
{
    ro_budget cost = {0, 0};
    ro_json_iter iter = {value.ptr, value.ptr + value.len};
    ro_slice token;
    while (ro_json_next_token(&iter, &token)) {
        cost.values += !is_punctuation(*token.ptr);
        cost.bytes += token.len;
    }
    return cost;
}

static void
write_whole(work *w, ro_slice value)
{
    ro_budget cost = cost_of(value);
    spend(&w->budget->values, cost.values, w);
    if (is_well(w) && cost.bytes > w->budget->bytes) {
        refuse(w->up, RO_REDUCE_OVER_BUDGET); /* before it costs memory */
    }
    ro_write_minified(&w->up->to, value);
}

static void
write_emptied(work *w, ro_slice value)
{
    static const char *const empty[] = {
        [RO_JSON_OBJECT] = "{}",   [RO_JSON_ARRAY] = "[]",
        [RO_JSON_STRING] = "\"\"", [RO_JSON_NUMBER_VALUE] = "0",
        [RO_JSON_TRUE] = "true",   [RO_JSON_FALSE] = "false",
        [RO_JSON_NULL] = "null",
    };
    spend_value(w);
    ro_write_raw(&w->up->to, ro_slice_str(empty[ro_json_type_of(value)]));
}

static void
write_schema(work *w, ro_slice value)
{
    ro_budget cost = cost_of(value);
    if (cost.values > RO_MAX_SCHEMA_VALUES
        || cost.bytes > RO_MAX_SCHEMA_BYTES) {
        write_emptied(w, value);
    }
    else {
        write_whole(w, value);
    }
}

/* ---- containers ---- */

/* The last member of each name, in the table's order. */
static void
write_object(work *w, ro_slice object, const ro_shape_member *members)
{
    ro_slice found[RO_SHAPE_MAX_MEMBERS] = {{NULL, 0}};
    ro_json_iter iter = ro_json_iter_of(object);
    ro_slice key;
    ro_slice value;
    while (ro_json_next_member(&iter, &key, &value)) {
        for (size_t i = 0; members[i].name != NULL; i++) {
            if (ro_json_string_is(key, ro_slice_str(members[i].name))) {
                found[i] = value;
                break;
            }
        }
    }
    for (size_t i = 0; members[i].name != NULL; i++) {
        if (found[i].len != 0) {
            spend_value(w);
            ro_write_key(&w->up->to, members[i].name);
            write_value(w, found[i], members[i].shape);
        }
    }
}

static void
write_items(work *w, ro_slice array, const ro_shape *inner)
{
    ro_json_iter iter = ro_json_iter_of(array);
    ro_slice item;
    while (is_well(w) && ro_json_next_item(&iter, &item)) {
        write_value(w, item, inner);
    }
}

static void
write_members(work *w, ro_slice object, const ro_shape *inner)
{
    ro_json_iter iter = ro_json_iter_of(object);
    ro_slice key;
    ro_slice value;
    while (is_well(w) && ro_json_next_member(&iter, &key, &value)) {
        spend_value(w);
        ro_write_raw(&w->up->to, key);
        ro_write_span(&w->up->to, ro_slice_str(":"));
        write_value(w, value, inner);
    }
}

static void
write_container(work *w, ro_slice value, const ro_shape *shape)
{
    bool is_array = shape->kind == RO_SHAPE_ITEMS;
    spend_value(w);
    ro_write_open(&w->up->to, is_array ? '[' : '{');
    if (is_array) {
        write_items(w, value, shape->inner);
    }
    else if (shape->kind == RO_SHAPE_OBJECT) {
        write_object(w, value, shape->members);
    }
    else {
        write_members(w, value, shape->inner);
    }
    ro_write_close(&w->up->to, is_array ? ']' : '}');
}

/* The type that a shape is for; a whole value may have any. */
static bool
is_for(const ro_shape *shape, ro_slice value)
{
    return ro_json_type_of(value)
           == (shape->kind == RO_SHAPE_ITEMS ? RO_JSON_ARRAY : RO_JSON_OBJECT);
}

/* Calls itself as deep as the tables are nested, not as the value is. */
static void
write_value(work *w, ro_slice value, const ro_shape *shape)
{
    if (!is_well(w)) {
        return;
    }
    if (shape->kind == RO_SHAPE_WHOLE) {
        write_whole(w, value);
    }
    else if (shape->kind == RO_SHAPE_EMPTIED || !is_for(shape, value)) {
        write_emptied(w, value);
    }
    else if (shape->kind == RO_SHAPE_SCHEMA) {
        write_schema(w, value);
    }
    else {
        write_container(w, value, shape);
    }
    pay(w);
}

/* ---- documents ---- */

ro_shaper
ro_shaper_of(ro_buf *out)
{
    return (ro_shaper){ro_writer_of(out), RO_REDUCE_OK};
}

void
ro_shape_put(ro_shaper *up, ro_slice value, const ro_shape *shape,
             ro_budget *budget)
{
    ro_write_comma(&up->to);
    work w = {up, budget, up->to.out->len};
    if (is_well(&w) && !ro_shape_is_readable(value)) {
        refuse(up, RO_REDUCE_UNREADABLE);
    }
    write_value(&w, value, shape);
}

ro_reduce_code
ro_shape_done(ro_shaper *up)
{
    ro_buf_code code = ro_write_done(&up->to);
    if (up->refused != RO_REDUCE_OK) {
        return up->refused;
    }
    return code == RO_BUF_OK          ? RO_REDUCE_OK
           : code == RO_BUF_TOO_LARGE ? RO_REDUCE_TOO_LARGE
                                      : RO_REDUCE_NO_MEMORY;
}
