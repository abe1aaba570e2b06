/* A raw JSON string, unescaped byte by byte, without memory.
 *
 * The string has passed ro_json_validate. The bytes that come out are its
 * text in UTF-8, NUL bytes included. Thread safe: no state but the object's.
 */
#ifndef RO_CORE_UNESCAPE_H
#define RO_CORE_UNESCAPE_H

#include "core/slice.h"

typedef struct ro_unescape {
    const char *ptr;
    const char *end;
    unsigned char pending[4]; /* the rest of one escaped code point */
    unsigned n_pending;
} ro_unescape;

/* raw has its quotes; it must outlive the object. */
ro_unescape ro_unescape_of(ro_slice raw);
/* False at the end. */
bool ro_unescape_next(ro_unescape *text, unsigned char *byte);

/* Whether two raw strings read the same. */
bool ro_unescape_equal(ro_slice raw_a, ro_slice raw_b);
/* Whether the text of a raw string holds a NUL (an escaped one; a raw one
 * is not JSON). */
bool ro_unescape_has_nul(ro_slice raw);

#endif
