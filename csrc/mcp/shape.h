/* What of a JSON value is handed up, as a table says.
 *
 * A shape names the members that a model above reads. Everything else is
 * left out; what is only looked at for its type goes up emptied; of a key
 * that stands twice the last counts, as it does above. Values have passed
 * ro_json_validate. Thread safe: no state but the caller's.
 */
#ifndef RO_MCP_SHAPE_H
#define RO_MCP_SHAPE_H

#include "core/buf.h"
#include "core/json_write.h"
#include "core/slice.h"

/* What may still go up; counted down. */
typedef struct ro_budget {
    size_t values; /* values and keys */
    size_t bytes;
} ro_budget;

typedef enum ro_shape_kind {
    RO_SHAPE_WHOLE,   /* as it is, white space removed */
    RO_SHAPE_EMPTIED, /* {}, [], "", 0 or the literal */
    RO_SHAPE_SCHEMA,  /* an object: whole when small, else emptied */
    RO_SHAPE_OBJECT,  /* the named members, each in its shape */
    RO_SHAPE_ITEMS,   /* an array, each item in the inner shape */
    RO_SHAPE_MEMBERS, /* an object, each value in the inner shape */
} ro_shape_kind;

/* A value of another type than its shape is for goes up emptied: the model
 * judges it by its type. */
typedef struct ro_shape {
    ro_shape_kind kind;
    const struct ro_shape_member *members; /* ended by name NULL */
    const struct ro_shape *inner;
} ro_shape;

typedef struct ro_shape_member {
    const char *name;
    const ro_shape *shape;
} ro_shape_member;

#define RO_SHAPE_MAX_MEMBERS 12u

typedef enum ro_reduce_code {
    RO_REDUCE_OK = 0,
    RO_REDUCE_UNREADABLE, /* a number of more than RO_MAX_NUMBER digits */
    RO_REDUCE_OVER_BUDGET,
    RO_REDUCE_TOO_LARGE, /* out's cap */
    RO_REDUCE_NO_MEMORY,
} ro_reduce_code;

/* A document with shaped values in it. What else it has is written through
 * `to`; after the first refusal nothing is. */
typedef struct ro_shaper {
    ro_writer to;
    ro_reduce_code refused; /* OK, UNREADABLE or OVER_BUDGET */
} ro_shaper;

ro_shaper ro_shaper_of(ro_buf *out);
/* The next value, in its shape; a comma before it costs nothing. What the
 * budget has spent on a refused value stays spent. */
void ro_shape_put(ro_shaper *up, ro_slice value, const ro_shape *shape,
                  ro_budget *budget);
/* How it went. Unless RO_REDUCE_OK, out is as it was. */
ro_reduce_code ro_shape_done(ro_shaper *up);

/* Whether the models' JSON reader takes every number in value. */
bool ro_shape_is_readable(ro_slice value);

#endif
