#include "core/buf.h"

#include "core/alloc.h"

#define FIRST_CAP 256u

void
ro_buf_init(ro_buf *buf, size_t max)
{
    *buf = (ro_buf){.max = max};
}

/* Room for len more bytes; len is at most max - buf->len. */
static ro_buf_code
grow(ro_buf *buf, size_t len)
{
    size_t need = buf->len + len;
    size_t cap = buf->cap == 0 ? FIRST_CAP : buf->cap;
    char *data = NULL;

    /* Twice as much, but never past max, which is at least need. */
    while (cap < need && cap <= buf->max / 2) {
        cap *= 2;
    }
    if (cap < need || cap > buf->max) {
        cap = buf->max;
    }
    data = ro_realloc(buf->data, cap);
    if (data == NULL) {
        return RO_BUF_NO_MEMORY;
    }
    buf->data = data;
    buf->cap = cap;
    return RO_BUF_OK;
}

ro_buf_code
ro_buf_append(ro_buf *buf, const void *bytes, size_t len)
{
    if (len > buf->max - buf->len) {
        return RO_BUF_TOO_LARGE;
    }
    if (len == 0) {
        return RO_BUF_OK;
    }
    if (len > buf->cap - buf->len && grow(buf, len) != RO_BUF_OK) {
        return RO_BUF_NO_MEMORY;
    }
    memcpy(buf->data + buf->len, bytes, len);
    buf->len += len;
    return RO_BUF_OK;
}

ro_buf_code
ro_buf_append_slice(ro_buf *buf, ro_slice slice)
{
    return ro_buf_append(buf, slice.ptr, slice.len);
}

ro_buf_code
ro_buf_append_char(ro_buf *buf, char c)
{
    return ro_buf_append(buf, &c, 1);
}

void
ro_buf_clear(ro_buf *buf)
{
    buf->len = 0;
}

void
ro_buf_free(ro_buf *buf)
{
    ro_free(buf->data);
    ro_buf_init(buf, buf->max);
}

char *
ro_buf_steal(ro_buf *buf, size_t *len)
{
    char *data = buf->data;
    *len = buf->len;
    ro_buf_init(buf, buf->max);
    return data;
}

ro_slice
ro_buf_slice(const ro_buf *buf)
{
    return ro_slice_of(buf->data, buf->len);
}
