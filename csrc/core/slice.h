/* A borrowed run of bytes. Never owns, never NUL-terminated. */
#ifndef RO_CORE_SLICE_H
#define RO_CORE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct ro_slice {
    const char *ptr; /* may be NULL when len is 0 */
    size_t len;      /* bytes */
} ro_slice;

static inline ro_slice
ro_slice_of(const char *ptr, size_t len)
{
    ro_slice slice = {ptr, len};
    return slice;
}

static inline ro_slice
ro_slice_str(const char *text)
{
    return ro_slice_of(text, strlen(text));
}

static inline bool
ro_slice_equal(ro_slice a, ro_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

#endif
