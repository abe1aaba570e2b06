/* What the head of a response means: one rule for every carrier.
 *
 * The first Content-Type counts, without regard to case, with any parameters
 * behind it; `text/event-streams` is another type. Thread safe: no state.
 */
#ifndef RO_MCP_RESPONSE_H
#define RO_MCP_RESPONSE_H

#include "mcp/reason.h"
#include "net/header_list.h"

typedef enum ro_response {
    RO_RESPONSE_FAILURE = 0, /* a status that is no success, nor below */
    RO_RESPONSE_REDIRECT,    /* 301, 302, 303, 307, 308 that name a place */
    RO_RESPONSE_CHALLENGE,   /* 401, 403: an auth flow may know what to do */
    RO_RESPONSE_EMPTY,       /* 202, 204: taken, and no answer */
    RO_RESPONSE_EVENTS,      /* a success with an event stream */
    RO_RESPONSE_JSON,        /* a success with JSON */
    RO_RESPONSE_OTHER,       /* a success with another body */
} ro_response;

ro_response ro_response_of(const ro_head *head);
bool ro_response_is_success(ro_response response);

/* Why a response is not the answer that was wanted: its status, or else that
 * its body is no such thing. */
ro_reason ro_response_reason(const ro_head *head);
/* The same by the status alone; 0 for none. */
ro_reason ro_reason_of_status(long status);

/* Where a redirect of url that keeps the method leads on the same origin,
 * for ro_free; NULL: nowhere, or out of memory. get: every redirect of a GET
 * keeps it. */
char *ro_response_leads_to(const char *url, const ro_head *head, bool get);

/* Copy the head's lines, without those that framed its body and are no
 * longer true; false when out of memory. */
bool ro_response_keep(ro_header_list *list, const ro_head *head);

#endif
