#include "net/port.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/buf.h"

struct ro_port {
    atomic_uint refs;
    pid_t pid; /* in a forked child the lock may be taken for ever */
    ro_net *net;
    int fd;
    atomic_ullong last_id;
    pthread_mutex_t lock;
    ro_flow *first; /* lock: flows with news, each counted */
    ro_flow *last;  /* lock */
    bool closed;    /* lock: nobody polls any more */
};

struct ro_flow {
    atomic_uint refs;
    ro_port *port; /* counted */
    ro_transfer *transfer;
    uint64_t id;
    ro_flow *next; /* port's lock, like all below */
    bool listed;
    bool has_head;
    bool done;
    bool full; /* the worker holds bytes back */
    ro_net_code code;
    ro_head head; /* constant once has_head is set */
    ro_header *headers;
    char *text; /* what head and headers point into */
    ro_buf queue;
};

/* ---- counting ---- */

ro_port *
ro_port_new(ro_net *net)
{
    ro_port *port = ro_calloc(1, sizeof(*port));

    if (port == NULL) {
        return NULL;
    }
    port->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (port->fd < 0) {
        ro_free(port);
        return NULL;
    }
    atomic_init(&port->refs, 1);
    atomic_init(&port->last_id, 0);
    pthread_mutex_init(&port->lock, NULL);
    port->pid = getpid();
    port->net = net;
    return port;
}

static bool
is_ours(const ro_port *port)
{
    return getpid() == port->pid;
}

static void
drop_flow(ro_flow *flow)
{
    if (flow == NULL || atomic_fetch_sub(&flow->refs, 1) > 1) {
        return;
    }
    ro_transfer_release(flow->transfer);
    ro_buf_free(&flow->queue);
    ro_free(flow->headers);
    ro_free(flow->text);
    ro_port_release(flow->port);
    ro_free(flow);
}

static ro_flow *
next_listed(ro_port *port, bool *more)
{
    pthread_mutex_lock(&port->lock);
    ro_flow *flow = port->first;
    if (flow != NULL) {
        port->first = flow->next;
        flow->next = NULL;
        flow->listed = false;
    }
    *more = port->first != NULL;
    pthread_mutex_unlock(&port->lock);
    return flow;
}

void
ro_port_close(ro_port *port)
{
    bool more = true;

    if (!is_ours(port)) {
        return;
    }
    pthread_mutex_lock(&port->lock);
    port->closed = true;
    pthread_mutex_unlock(&port->lock);
    while (more) {
        drop_flow(next_listed(port, &more));
    }
}

void
ro_port_release(ro_port *port)
{
    if (port == NULL || atomic_fetch_sub(&port->refs, 1) > 1) {
        return;
    }
    close(port->fd);
    pthread_mutex_destroy(&port->lock);
    ro_free(port);
}

int
ro_port_fd(const ro_port *port)
{
    return port->fd;
}

/* ---- news ---- */

static void
ring(ro_port *port)
{
    uint64_t one = 1;
    /* It fails only when the counter is full: readable all the same. */
    while (write(port->fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

/* True when the list was empty: ring, once the lock is free. */
static bool
list_locked(ro_flow *flow)
{
    ro_port *port = flow->port;

    if (flow->listed || port->closed) {
        return false;
    }
    flow->listed = true;
    flow->next = NULL;
    atomic_fetch_add(&flow->refs, 1);
    bool was_empty = port->first == NULL;
    if (was_empty) {
        port->first = flow;
    }
    else {
        port->last->next = flow;
    }
    port->last = flow;
    return was_empty;
}

size_t
ro_port_poll(ro_port *port, uint64_t *ids, size_t max)
{
    uint64_t count;
    size_t n = 0;
    bool more = true;

    if (!is_ours(port)) {
        return 0; /* the descriptor is the parent's, too */
    }
    while (read(port->fd, &count, sizeof(count)) < 0 && errno == EINTR) {
    }
    while (n < max && more) {
        ro_flow *flow = next_listed(port, &more);
        if (flow == NULL) {
            return n;
        }
        ids[n++] = flow->id;
        drop_flow(flow);
    }
    if (more) {
        ring(port);
    }
    return n;
}

/* ---- the worker's side ---- */

static bool
copy_head(ro_flow *flow, const ro_head *head)
{
    size_t size = head->reason.len;
    for (size_t i = 0; i < head->n_headers; i++) {
        size += head->headers[i].name.len + head->headers[i].value.len;
    }
    flow->text = ro_malloc(size + 1);
    flow->headers = ro_calloc(head->n_headers + 1, sizeof(*flow->headers));
    if (flow->text == NULL || flow->headers == NULL) {
        return false;
    }
    char *end = flow->text;
    flow->head = *head;
    flow->head.headers = flow->headers;
    if (head->reason.len > 0) {
        memcpy(end, head->reason.ptr, head->reason.len);
    }
    flow->head.reason.ptr = end;
    end += head->reason.len;
    for (size_t i = 0; i < head->n_headers; i++) {
        ro_slice parts[] = {head->headers[i].name, head->headers[i].value};
        for (size_t k = 0; k < 2; k++) {
            if (parts[k].len > 0) {
                memcpy(end, parts[k].ptr, parts[k].len);
            }
            parts[k].ptr = end;
            end += parts[k].len;
        }
        flow->headers[i].name = parts[0];
        flow->headers[i].value = parts[1];
    }
    return true;
}

static ro_sink_verdict
on_head(void *ctx, const ro_head *head)
{
    ro_flow *flow = ctx;
    bool news = false;

    if (!copy_head(flow, head)) {
        return RO_SINK_FAIL;
    }
    pthread_mutex_lock(&flow->port->lock);
    flow->has_head = true;
    news = list_locked(flow);
    pthread_mutex_unlock(&flow->port->lock);
    if (news) {
        ring(flow->port);
    }
    return RO_SINK_MORE;
}

static ro_sink_verdict
on_data(void *ctx, const char *bytes, size_t len)
{
    ro_flow *flow = ctx;
    bool news = false;

    pthread_mutex_lock(&flow->port->lock);
    ro_buf_code code = ro_buf_append(&flow->queue, bytes, len);
    flow->full = code == RO_BUF_TOO_LARGE;
    if (code == RO_BUF_OK) {
        news = list_locked(flow);
    }
    pthread_mutex_unlock(&flow->port->lock);
    if (news) {
        ring(flow->port);
    }
    switch (code) {
    case RO_BUF_OK:
        return RO_SINK_MORE;
    case RO_BUF_TOO_LARGE:
        return RO_SINK_PAUSE;
    case RO_BUF_NO_MEMORY:
        break;
    }
    return RO_SINK_FAIL;
}

static void
on_done(void *ctx, ro_net_code code)
{
    ro_flow *flow = ctx;

    pthread_mutex_lock(&flow->port->lock);
    flow->done = true;
    flow->code = code == RO_NET_SINK ? RO_NET_NO_MEMORY : code;
    bool news = list_locked(flow);
    pthread_mutex_unlock(&flow->port->lock);
    if (news) {
        ring(flow->port);
    }
    drop_flow(flow); /* the sink's reference */
}

/* ---- the reader's side ---- */

ro_net_code
ro_port_submit(ro_port *port, const ro_request *request, ro_flow **out)
{
    *out = NULL;
    if (!is_ours(port)) {
        return RO_NET_FORKED;
    }
    ro_flow *flow = ro_calloc(1, sizeof(*flow));
    if (flow == NULL) {
        return RO_NET_NO_MEMORY;
    }
    atomic_init(&flow->refs, 2); /* the caller's and the sink's */
    atomic_fetch_add(&port->refs, 1);
    flow->port = port;
    flow->id = atomic_fetch_add(&port->last_id, 1) + 1;
    ro_buf_init(&flow->queue, RO_FLOW_QUEUE);
    ro_sink sink = {flow, on_head, on_data, on_done};
    ro_net_code code
        = ro_net_submit(port->net, request, &sink, &flow->transfer);
    if (code != RO_NET_OK) {
        atomic_store(&flow->refs, 1);
        drop_flow(flow);
        return code;
    }
    *out = flow;
    return RO_NET_OK;
}

void
ro_flow_cancel(ro_flow *flow)
{
    if (!is_ours(flow->port)) {
        return;
    }
    pthread_mutex_lock(&flow->port->lock);
    bool done = flow->done;
    pthread_mutex_unlock(&flow->port->lock);
    if (!done) {
        ro_transfer_cancel(flow->transfer);
    }
}

void
ro_flow_release(ro_flow *flow)
{
    if (flow != NULL && is_ours(flow->port)) {
        ro_flow_cancel(flow);
        drop_flow(flow);
    }
}

uint64_t
ro_flow_id(const ro_flow *flow)
{
    return flow->id;
}

static ro_flow_state
end_of(const ro_flow *flow, ro_net_code *code)
{
    if (!flow->done) {
        return RO_FLOW_WAITS;
    }
    *code = flow->code;
    return flow->code == RO_NET_OK ? RO_FLOW_ENDED : RO_FLOW_FAILED;
}

ro_flow_state
ro_flow_head(ro_flow *flow, ro_head *head, ro_net_code *code)
{
    ro_flow_state state = RO_FLOW_READY;

    if (!is_ours(flow->port)) {
        *code = RO_NET_FORKED;
        return RO_FLOW_FAILED;
    }
    pthread_mutex_lock(&flow->port->lock);
    if (flow->has_head) {
        *head = flow->head;
    }
    else {
        state = end_of(flow, code);
    }
    pthread_mutex_unlock(&flow->port->lock);
    return state;
}

ro_flow_state
ro_flow_read(ro_flow *flow, char **bytes, size_t *len, ro_net_code *code)
{
    ro_flow_state state = RO_FLOW_READY;

    if (!is_ours(flow->port)) {
        *code = RO_NET_FORKED;
        return RO_FLOW_FAILED;
    }
    bool resume = false;
    pthread_mutex_lock(&flow->port->lock);
    if (flow->queue.len > 0) {
        *bytes = ro_buf_steal(&flow->queue, len);
        resume = flow->full;
        flow->full = false;
    }
    else {
        state = end_of(flow, code);
    }
    pthread_mutex_unlock(&flow->port->lock);
    if (resume) {
        ro_transfer_resume(flow->transfer);
    }
    return state;
}
