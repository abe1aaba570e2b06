/* Finished exchanges on their way to the event loop.
 *
 * The worker pushes, one consumer pops; an eventfd is readable while
 * something waits. Thread safe.
 */
#ifndef RO_MCP_REPLIES_H
#define RO_MCP_REPLIES_H

#include <stdint.h>

#include "net/header_list.h"

typedef struct ro_reply {
    struct ro_reply *next;
    uint64_t ticket;
    long status;
    ro_header_list headers;
    char *body; /* owned, body_len bytes */
    size_t body_len;
} ro_reply;

typedef struct ro_replies ro_replies;

ro_replies *ro_replies_new(void); /* NULL: no memory or descriptors */
void ro_replies_free(ro_replies *replies);
int ro_replies_fd(const ro_replies *replies);
/* Takes the reply. */
void ro_replies_push(ro_replies *replies, ro_reply *reply);
/* Make the descriptor readable without a reply. */
void ro_replies_wake(ro_replies *replies);
/* All that wait, oldest first, linked by next; the caller owns them. The
 * descriptor is quiet again. None in a forked child. */
ro_reply *ro_replies_take(ro_replies *replies);
void ro_reply_free(ro_reply *reply);

#endif
