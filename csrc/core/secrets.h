/* The configured secret values, compiled to be found in text.
 *
 * Each value is found as it is, percent-encoded and base64-encoded at each
 * of the three alignments; the text is prepared by core/view.h, so that
 * every mixture of encoded and plain characters, both cases of %xx and both
 * base64 alphabets are the same text here.
 *
 * No value is kept: a pattern is the last eight bytes, a length and a 62-bit
 * polynomial hash, about 48 bytes however long the secret is. A text is
 * searched in one pass plus constant work per candidate, so the time is
 * linear in the text whatever the text is. Equal bytes always match; other
 * bytes with the same hash, length and tail would match too (1 in 2^62).
 *
 * A compiled set never changes and can be searched by any number of threads.
 */
#ifndef RO_CORE_SECRETS_H
#define RO_CORE_SECRETS_H

#include "core/slice.h"

#include <stdint.h>

typedef struct ro_secrets ro_secrets;

typedef enum ro_secrets_code {
    RO_SECRETS_OK = 0,
    RO_SECRETS_TOO_MANY, /* more than max_count distinct values */
    RO_SECRETS_TOO_LONG, /* a value longer than max_len */
    RO_SECRETS_NO_MEMORY,
} ro_secrets_code;

typedef struct ro_secrets_limits {
    size_t min_len;   /* bytes; a shorter value is ignored; at least 8 */
    size_t max_len;   /* bytes; below 1 GiB */
    size_t max_count; /* values */
} ro_secrets_limits;

/* The values are not kept. On failure *out is NULL. The caller owns *out. */
ro_secrets_code ro_secrets_new(const ro_slice *values, size_t count,
                               const ro_secrets_limits *limits,
                               ro_secrets **out);
/* NULL is fine. */
void ro_secrets_free(ro_secrets *secrets);

typedef enum ro_secrets_form {
    RO_SECRETS_TEXT,   /* a text, percent-decoded or not */
    RO_SECRETS_BASE64, /* a text that ro_view_base64 made */
} ro_secrets_form;

/* Memory that searches share, one owner at a time. Zeroed is valid. */
typedef struct ro_secrets_scratch {
    struct ro_secrets_hash *marks;
    size_t cap;
} ro_secrets_scratch;

void ro_secrets_scratch_free(ro_secrets_scratch *scratch);

/* Called with text[first, end) of a match, first < end; ascending by the end
 * of the value, possibly overlapping. */
typedef void (*ro_match_fn)(void *context, size_t first, size_t end);

/* Calls found for every match; of base64, digits that carry a few bits of
 * the value and its padding belong to the match. secrets may be NULL.
 * Returns false when out of memory. */
bool ro_secrets_search(const ro_secrets *secrets, ro_secrets_form form,
                       ro_slice text, ro_secrets_scratch *scratch,
                       ro_match_fn found, void *context);

#endif
