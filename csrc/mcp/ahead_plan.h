/* What a conversation that runs ahead says, and where: given as a plan, kept
 * as a copy. No thread: plain data.
 */
#ifndef RO_MCP_AHEAD_PLAN_H
#define RO_MCP_AHEAD_PLAN_H

#include "net/header_list.h"

/* What a conversation that runs ahead sends: the bytes of the SDK. */
typedef struct ro_ahead_plan {
    ro_slice server;
    const char *url;
    const char *proxy;
    const char *cafile;
    const char *capath;
    const char *versions;     /* protocol versions that the SDK speaks, with a
                                 space between two */
    const ro_header *headers; /* of initialize, without Content-Length */
    size_t n_headers;
    ro_slice initialize;
    ro_slice initialized;
    ro_slice list;
} ro_ahead_plan;

/* Its messages, in their order. */
enum {
    RO_AHEAD_INITIALIZE,
    RO_AHEAD_INITIALIZED,
    RO_AHEAD_LIST,
    RO_AHEAD_STEPS,
};

typedef struct ro_ahead_said {
    char *server;
    char *url;
    char *proxy;
    char *cafile;
    char *capath;
    char *versions;
    char *bodies[RO_AHEAD_STEPS];
    ro_header_list headers;
} ro_ahead_said;

/* False: out of memory, or a body is not the message of its place, so that
 * tools/call is never among them. Needs free in any case. */
bool ro_ahead_said_copy(ro_ahead_said *said, const ro_ahead_plan *plan);
void ro_ahead_said_free(ro_ahead_said *said);
/* Whether the SDK speaks that version of the protocol. */
bool ro_ahead_speaks(const ro_ahead_said *said, ro_slice version);

#endif
