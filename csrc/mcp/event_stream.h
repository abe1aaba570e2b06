/* One event stream of a server, over the transfers that carry it: the body of
 * a POST, GETs that open it or resume it where it broke off. Owns the GET,
 * its timer, the parser, the last event id, and the pause that the server
 * wishes. Used by a POST's answer, a session's own stream and HTTP with SSE;
 * what an event means is the owner's.
 *
 * Worker thread only. Owners must outlive the stream, and the stream its GET.
 */
#ifndef RO_MCP_EVENT_STREAM_H
#define RO_MCP_EVENT_STREAM_H

#include "mcp/sse.h"
#include "mcp/state.h"

typedef struct ro_stream_owner {
    /* The head of a GET. Anything but MORE ends it. */
    ro_sink_verdict (*head)(void *ctx, const ro_head *head);
    /* Bytes of it came; false when they are too many, which ends it. */
    bool (*count)(void *ctx, size_t len);
    /* An event with data. Anything but MORE ends it. */
    ro_sink_verdict (*event)(void *ctx, const ro_sse_event *event);
    /* It cannot be read further: too large, or no memory. */
    void (*unreadable)(void *ctx, ro_sse_code code);
    /* A GET is over, or could not be sent when its time had come: then the
     * stream is stopped. The owner may free the stream. */
    void (*ended)(void *ctx, ro_net_code code);
} ro_stream_owner;

typedef struct ro_event_stream {
    ro_session *session;
    const ro_stream_owner *owner;
    void *ctx;
    size_t max_data;
    const char *url;               /* of the next GET */
    const ro_header_list *headers; /* of the next GET, its own left out */
    ro_transfer *transfer;         /* of a GET */
    ro_timer *timer;               /* until the next GET */
    bool stopped;                  /* no GET any more */
    unsigned resumed;              /* GETs that a timer was set for */
    ro_sse sse;
    ro_sink_verdict verdict; /* of the event that ended it */
    int retry_ms;            /* the server's wish, or -1 */
    char *last_id;           /* or NULL */
    size_t last_id_len;
} ro_event_stream;

/* max_data: bytes of one event. Nothing is allocated before it is fed. */
void ro_event_stream_init(ro_event_stream *stream, ro_session *session,
                          const ro_stream_owner *owner, void *ctx,
                          size_t max_data);
/* A zeroed stream is fine. Its GET is done. */
void ro_event_stream_free(ro_event_stream *stream);

/* A new body begins. */
void ro_event_stream_begin(ro_event_stream *stream);
/* Bytes of a body: counted, read, told. For a POST's sink; a GET has its
 * own. */
ro_sink_verdict ro_event_stream_data(ro_event_stream *stream,
                                     const char *bytes, size_t len);

/* An event with data whose type is "message", named or not. */
bool ro_event_is_message(const ro_sse_event *event);

/* Where GETs go, and the headers that they are made of. Borrowed: both are
 * read when a GET is sent. */
void ro_event_stream_aim(ro_event_stream *stream, const char *url,
                         const ro_header_list *headers);
/* Send a GET now. */
ro_net_code ro_event_stream_get(ro_event_stream *stream);
/* Send one after wanted_ms, or what the server wishes when that is -1, or
 * later, as the session's GETs allow. False when there is none to be had. */
bool ro_event_stream_again(ro_event_stream *stream, int wanted_ms);
/* A GET or a timer is under way. */
bool ro_event_stream_is_open(const ro_event_stream *stream);
/* No GET any more. One that is under way goes on, and may still end. */
void ro_event_stream_close(ro_event_stream *stream);
/* The same, and what is under way ends as cancelled, unless its sink has ended
 * it. */
void ro_event_stream_stop(ro_event_stream *stream);

#endif
