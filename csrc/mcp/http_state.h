/* The state of Streamable HTTP, shared by its files, and no function. */
#ifndef RO_MCP_HTTP_STATE_H
#define RO_MCP_HTTP_STATE_H

#include "mcp/event_stream.h"

/* The DELETE of one session on the server, sent or to be sent; what it points
 * to is its owner's and stays. */
typedef struct ro_deletion {
    struct ro_deletion *next;
    bool started; /* or one of the next */
    ro_mcp *mcp;
    ro_request request; /* its destination */
    ro_header_list *headers;
    ro_slice id;
} ro_deletion;

typedef struct ro_http {
    char *id; /* MCP session id or NULL: post.c */
    size_t id_len;
    ro_header_list template; /* of the last POST: http.c */
    ro_event_stream push;    /* the server's own: push.c */
    ro_deletion deletion;    /* delete.c */
} ro_http;

#endif
