/* An event stream, fed in chunks of any size.
 *
 * Lines end in CR, LF or CRLF, split over chunks or not; one BOM at the
 * start is skipped; comments and unknown fields are passed over without
 * memory, however long; an event that the stream's end cuts off is never
 * reported. Bytes are kept as sent: U+2028, U+2029 and U+0085 end no line,
 * and UTF-8 is for the reader of the data to check. Not thread safe: one
 * parser, one thread at a time.
 */
#ifndef RO_MCP_SSE_H
#define RO_MCP_SSE_H

#include "core/buf.h"
#include "core/slice.h"

typedef enum ro_sse_code {
    RO_SSE_OK = 0,
    RO_SSE_STOPPED,   /* the callback returned false */
    RO_SSE_TOO_LARGE, /* an event's data, type or id passed its cap */
    RO_SSE_NO_MEMORY,
} ro_sse_code;

/* One block of lines up to an empty line, if it held a data, id or retry
 * field that counts. Slices live until the callback returns. */
typedef struct ro_sse_event {
    ro_slice type;    /* "message" when the block named none */
    ro_slice data;    /* data lines joined by LF */
    bool has_data;    /* a data line stood in the block: an event. Without
                         one it only sets the id or the retry time */
    bool has_id;      /* an id line stood in the block */
    ro_slice last_id; /* the stream's last event id, this block's included;
                         may be empty */
    int retry_ms;     /* milliseconds, at most INT_MAX; -1 when not sent */
} ro_sse_event;

/* False stops the parser for good. It must not feed or free the parser. */
typedef bool (*ro_sse_event_fn)(void *arg, const ro_sse_event *event);

typedef struct ro_sse {
    ro_buf data;
    ro_buf type;
    ro_buf id;       /* of the last block that is complete */
    ro_buf block_id; /* of this block */
    ro_buf line_id;  /* of the line that is being read */
    ro_sse_event_fn event;
    void *arg;
    ro_sse_code code; /* the first that was not OK */
    int state;
    int field;
    char name[6]; /* the first bytes of the field name */
    unsigned n_name;
    unsigned n_bom; /* bytes of the BOM seen at the start */
    bool after_cr;
    bool has_data;
    bool has_id;    /* in this block */
    bool bad_value; /* a NUL in an id, no digit in a retry */
    bool has_digits;
    int value_ms; /* the retry line that is being read */
    int retry_ms; /* this block's, or -1 */
} ro_sse;

/* max_data: bytes of one event's data. max_field: bytes of an event type or
 * id. Both are caps of what is kept; the parser allocates as it goes. */
void ro_sse_init(ro_sse *sse, size_t max_data, size_t max_field,
                 ro_sse_event_fn event, void *arg);
/* Once it has returned another code than RO_SSE_OK it returns that code for
 * ever and looks at nothing. */
ro_sse_code ro_sse_feed(ro_sse *sse, const char *bytes, size_t len);
/* Twice is fine; a zeroed parser too. */
void ro_sse_free(ro_sse *sse);

#endif
