/* A growable buffer that cannot pass its cap. Not thread safe. */
#ifndef RO_CORE_BUF_H
#define RO_CORE_BUF_H

#include "core/slice.h"

typedef enum ro_buf_code {
    RO_BUF_OK = 0,
    RO_BUF_TOO_LARGE, /* the append would pass max; nothing was appended */
    RO_BUF_NO_MEMORY, /* nothing was appended */
} ro_buf_code;

typedef struct ro_buf {
    char *data;
    size_t len;
    size_t cap;
    size_t max; /* bytes; data never holds more */
} ro_buf;

/* A zeroed ro_buf is valid and has max 0: init before the first append. */
void ro_buf_init(ro_buf *buf, size_t max);
ro_buf_code ro_buf_append(ro_buf *buf, const void *bytes, size_t len);
ro_buf_code ro_buf_append_slice(ro_buf *buf, ro_slice slice);
ro_buf_code ro_buf_append_char(ro_buf *buf, char c);
/* Forget the bytes, keep the memory. */
void ro_buf_clear(ro_buf *buf);
/* Give the memory back; the buffer can be used again. Twice is fine. */
void ro_buf_free(ro_buf *buf);
/* The bytes, to be freed by the caller with ro_free (NULL when there never
 * were any); the buffer is empty and can be used again. */
char *ro_buf_steal(ro_buf *buf, size_t *len);
ro_slice ro_buf_slice(const ro_buf *buf);

#endif
