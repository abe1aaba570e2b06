/* One message of a stream: an event's data or a stdio line, read by one rule
 * for Streamable HTTP, legacy SSE, a session's own stream and stdio.
 *
 * One byte order mark in front is passed over. What is no JSON-RPC message is
 * junk, unless it claims to be the answer. Slices point into the bytes.
 * Thread safe: no state.
 */
#ifndef RO_MCP_MESSAGE_H
#define RO_MCP_MESSAGE_H

#include "mcp/rpc.h"

typedef enum ro_message_kind {
    RO_MESSAGE_JUNK = 0,
    RO_MESSAGE_NOTIFICATION,
    RO_MESSAGE_REQUEST, /* rpc is filled */
    RO_MESSAGE_ANSWER,  /* decides, whatever its id: a result or an error of
                           JSON-RPC 2.0. An id that is neither string nor
                           integer makes it a wrong answer, not junk */
    RO_MESSAGE_CLAIM,   /* no JSON-RPC message, but an object with this id
                           and a result or an error: decides for whoever
                           waits for that id, is junk for all others */
    RO_MESSAGE_NO_MEMORY,
} ro_message_kind;

typedef struct ro_message {
    ro_message_kind kind;
    ro_slice text; /* without the mark */
    ro_slice id;   /* raw, of an answer or a claim */
    ro_rpc rpc;    /* of a request, a notification or a true answer */
} ro_message;

/* bytes without the byte order mark in front of them, if there is one. */
ro_slice ro_message_text(ro_slice bytes);

/* JSON is read with keep_duplicates, up to RO_MAX_DISCOVERY bytes and the
 * depth of a tool list; whoever waits for an answer judges it strictly. */
void ro_message_read(ro_slice bytes, ro_message *out);

#endif
