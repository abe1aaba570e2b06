/* A request whose answer nobody has asked for yet.
 *
 * It keeps what comes, up to a bound (behind it the transfer pauses), until
 * somebody takes it over. The taker's sink gets head, data and done from then
 * on exactly as if the taker had submitted the request: what was kept, and
 * what still comes. Until then a watcher sees the answer as it comes and may
 * stop it early.
 *
 * Worker thread only. A prefetch is a part of its owner's memory and must stay
 * until done has come or the worker is gone.
 */
#ifndef RO_MCP_PREFETCH_H
#define RO_MCP_PREFETCH_H

#include "core/buf.h"
#include "net/header_list.h"

typedef struct ro_prefetch {
    ro_net *net;
    ro_transfer *transfer; /* counted until it is taken */
    ro_sink watcher;
    ro_sink taker;
    long status;
    int version;
    ro_header_list headers; /* of the answer */
    ro_buf data;
    ro_net_code code;
    bool begun;
    bool has_head;
    bool held; /* paused: more than is kept */
    bool done;
    bool taken;
    bool live;  /* what was kept is out: the taker gets what comes */
    bool ended; /* the taker has heard the end */
} ro_prefetch;

/* Submit. The watcher's verdicts count until somebody takes it over; done
 * is told to it alone then. max: bytes that are kept. */
ro_net_code ro_prefetch_begin(ro_prefetch *prefetch, ro_net *net,
                              const ro_request *request,
                              const ro_sink *watcher, size_t max);
/* As ro_net_submit: *out and done are the taker's. False: out of memory, and
 * nothing has changed. */
bool ro_prefetch_take(ro_prefetch *prefetch, const ro_sink *taker,
                      ro_transfer **out);
/* Stop what nobody took. The watcher's done may still come. */
void ro_prefetch_cancel(ro_prefetch *prefetch);
/* Give the memory back; a zeroed prefetch is fine. */
void ro_prefetch_free(ro_prefetch *prefetch);

#endif
