/* The text of one JSON string, read the way a reader might read it.
 *
 * A view is bytes plus, for each byte, the place in the JSON source that it
 * came from, so that what is found in the text can be replaced in the
 * source. Views are made from each other: the JSON string unescaped,
 * percent-decoded, unescaped again (a text that is JSON itself), and with
 * base64 reduced to one alphabet. No view is longer than its source.
 *
 * Functions that take an output view size it themselves and return false
 * when out of memory. Not thread safe; one owner.
 */
#ifndef RO_CORE_VIEW_H
#define RO_CORE_VIEW_H

#include "core/slice.h"

#include <stdint.h>

typedef struct ro_view {
    char *text;      /* len bytes, any value, NUL included */
    uint32_t *start; /* of each byte: where its source begins, ascending; */
    uint32_t *stop;  /* and where that ends. Bytes of one escape share both */
    size_t len;
    size_t cap;
} ro_view;

/* Give the memory back. A zeroed view and a second call are fine. */
void ro_view_free(ro_view *view);

/* The text of a valid raw JSON string (with its quotes, below 4 GiB);
 * offsets count from the opening quote. */
bool ro_view_of_string(ro_view *view, ro_slice raw);

/* Resolve JSON escapes in the text itself, in place; any other backslash
 * stays. Returns whether anything changed. */
bool ro_view_unescape(ro_view *view);

/* Resolve %XX; with `fully` also the %XX that appear by that (%2541). *changed
 * says whether anything was resolved. */
bool ro_view_percent(const ro_view *in, bool fully, ro_view *out,
                     bool *changed);

/* The standard alphabet in place of the URL-safe one, and no white space. out
 * may be in. */
bool ro_view_base64(const ro_view *in, ro_view *out);

#endif
