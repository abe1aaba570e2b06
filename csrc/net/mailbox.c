#include "net/mailbox.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/buf.h"
#include "core/limits.h"
#include "core/wake.h"

struct ro_mailbox {
    atomic_uint refs;
    pid_t pid; /* in a forked child the lock may be taken for ever */
    ro_net *net;
    int fd;
    atomic_ullong last_id;
    pthread_mutex_t lock;
    ro_download *first; /* lock: downloads with news, each counted */
    ro_download *last;  /* lock */
    bool closed;        /* lock: nobody polls any more */
};

struct ro_download {
    atomic_uint refs;
    ro_mailbox *mailbox; /* counted */
    ro_transfer *transfer;
    uint64_t id;
    ro_download *next; /* mailbox's lock, like all below */
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

ro_mailbox *
ro_mailbox_new(ro_net *net)
{
    ro_mailbox *mailbox = ro_calloc(1, sizeof(*mailbox));

    if (mailbox == NULL) {
        return NULL;
    }
    mailbox->fd = ro_wake_new();
    if (mailbox->fd < 0) {
        ro_free(mailbox);
        return NULL;
    }
    atomic_init(&mailbox->refs, 1);
    atomic_init(&mailbox->last_id, 0);
    pthread_mutex_init(&mailbox->lock, NULL);
    mailbox->pid = getpid();
    mailbox->net = net;
    return mailbox;
}

static bool
is_ours(const ro_mailbox *mailbox)
{
    return getpid() == mailbox->pid;
}

static void
unref(ro_download *download)
{
    if (download == NULL || atomic_fetch_sub(&download->refs, 1) > 1) {
        return;
    }
    ro_transfer_release(download->transfer);
    ro_buf_free(&download->queue);
    ro_free(download->headers);
    ro_free(download->text);
    ro_mailbox_release(download->mailbox);
    ro_free(download);
}

static ro_download *
next_listed(ro_mailbox *mailbox, bool *more)
{
    pthread_mutex_lock(&mailbox->lock);
    ro_download *download = mailbox->first;
    if (download != NULL) {
        mailbox->first = download->next;
        download->next = NULL;
        download->listed = false;
    }
    *more = mailbox->first != NULL;
    pthread_mutex_unlock(&mailbox->lock);
    return download;
}

void
ro_mailbox_close(ro_mailbox *mailbox)
{
    bool more = true;

    if (!is_ours(mailbox)) {
        return;
    }
    pthread_mutex_lock(&mailbox->lock);
    mailbox->closed = true;
    pthread_mutex_unlock(&mailbox->lock);
    while (more) {
        unref(next_listed(mailbox, &more));
    }
}

void
ro_mailbox_release(ro_mailbox *mailbox)
{
    if (mailbox == NULL || atomic_fetch_sub(&mailbox->refs, 1) > 1) {
        return;
    }
    close(mailbox->fd);
    pthread_mutex_destroy(&mailbox->lock);
    ro_free(mailbox);
}

int
ro_mailbox_fd(const ro_mailbox *mailbox)
{
    return mailbox->fd;
}

/* ---- news ---- */

/* True when the list was empty: ring, once the lock is free. */
static bool
list_locked(ro_download *download)
{
    ro_mailbox *mailbox = download->mailbox;

    if (download->listed || mailbox->closed) {
        return false;
    }
    download->listed = true;
    download->next = NULL;
    atomic_fetch_add(&download->refs, 1);
    bool was_empty = mailbox->first == NULL;
    if (was_empty) {
        mailbox->first = download;
    }
    else {
        mailbox->last->next = download;
    }
    mailbox->last = download;
    return was_empty;
}

size_t
ro_mailbox_poll(ro_mailbox *mailbox, uint64_t *ids, size_t max)
{
    size_t n = 0;
    bool more = true;

    if (!is_ours(mailbox)) {
        return 0; /* the descriptor is the parent's, too */
    }
    /* Quiet first, list second: news that come in between make it readable
     * again, which at worst is one poll for nothing. */
    ro_wake_lower(mailbox->fd);
    while (n < max && more) {
        ro_download *download = next_listed(mailbox, &more);
        if (download == NULL) {
            return n;
        }
        ids[n++] = download->id;
        unref(download);
    }
    if (more) {
        ro_wake_raise(mailbox->fd);
    }
    return n;
}

/* ---- the worker's side ---- */

static bool
copy_head(ro_download *download, const ro_head *head)
{
    size_t size = head->reason.len;
    for (size_t i = 0; i < head->n_headers; i++) {
        size += head->headers[i].name.len + head->headers[i].value.len;
    }
    download->text = ro_malloc(size + 1);
    download->headers
        = ro_calloc(head->n_headers + 1, sizeof(*download->headers));
    if (download->text == NULL || download->headers == NULL) {
        return false;
    }
    char *end = download->text;
    download->head = *head;
    download->head.headers = download->headers;
    if (head->reason.len > 0) {
        memcpy(end, head->reason.ptr, head->reason.len);
    }
    download->head.reason.ptr = end;
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
        download->headers[i].name = parts[0];
        download->headers[i].value = parts[1];
    }
    return true;
}

static ro_sink_verdict
on_head(void *ctx, const ro_head *head)
{
    ro_download *download = ctx;
    bool news = false;

    if (!copy_head(download, head)) {
        return RO_SINK_FAIL;
    }
    pthread_mutex_lock(&download->mailbox->lock);
    download->has_head = true;
    news = list_locked(download);
    pthread_mutex_unlock(&download->mailbox->lock);
    if (news) {
        ro_wake_raise(download->mailbox->fd);
    }
    return RO_SINK_MORE;
}

static ro_sink_verdict
on_data(void *ctx, const char *bytes, size_t len)
{
    ro_download *download = ctx;
    bool news = false;

    pthread_mutex_lock(&download->mailbox->lock);
    /* The queue's cap is the back-pressure: what does not fit stays with
     * libcurl, and then with the kernel, until the reader makes room. */
    ro_buf_code code = ro_buf_append(&download->queue, bytes, len);
    download->full = code == RO_BUF_TOO_LARGE;
    if (code == RO_BUF_OK) {
        news = list_locked(download);
    }
    pthread_mutex_unlock(&download->mailbox->lock);
    if (news) {
        ro_wake_raise(download->mailbox->fd);
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
    ro_download *download = ctx;

    pthread_mutex_lock(&download->mailbox->lock);
    download->done = true;
    /* These sinks fail for want of memory alone. */
    download->code = code == RO_NET_SINK ? RO_NET_NO_MEMORY : code;
    bool news = list_locked(download);
    pthread_mutex_unlock(&download->mailbox->lock);
    if (news) {
        ro_wake_raise(download->mailbox->fd);
    }
    unref(download); /* the sink's reference */
}

/* ---- the reader's side ---- */

ro_net_code
ro_mailbox_submit(ro_mailbox *mailbox, const ro_request *request,
                  ro_download **out)
{
    *out = NULL;
    if (!is_ours(mailbox)) {
        return RO_NET_FORKED;
    }
    ro_download *download = ro_calloc(1, sizeof(*download));
    if (download == NULL) {
        return RO_NET_NO_MEMORY;
    }
    atomic_init(&download->refs, 2); /* the caller's and the sink's */
    atomic_fetch_add(&mailbox->refs, 1);
    download->mailbox = mailbox;
    download->id = atomic_fetch_add(&mailbox->last_id, 1) + 1;
    ro_buf_init(&download->queue, RO_MAX_DOWNLOAD_QUEUE);
    ro_sink sink = {download, on_head, on_data, on_done};
    ro_net_code code
        = ro_net_submit(mailbox->net, request, &sink, &download->transfer);
    if (code != RO_NET_OK) {
        atomic_store(&download->refs, 1); /* no callback is ever made */
        unref(download);
        return code;
    }
    *out = download;
    return RO_NET_OK;
}

void
ro_download_cancel(ro_download *download)
{
    if (!is_ours(download->mailbox)) {
        return;
    }
    pthread_mutex_lock(&download->mailbox->lock);
    bool done = download->done;
    pthread_mutex_unlock(&download->mailbox->lock);
    if (!done) {
        ro_transfer_cancel(download->transfer);
    }
}

void
ro_download_release(ro_download *download)
{
    if (download != NULL && is_ours(download->mailbox)) {
        ro_download_cancel(download);
        unref(download);
    }
}

uint64_t
ro_download_id(const ro_download *download)
{
    return download->id;
}

static ro_download_state
end_of(const ro_download *download, ro_net_code *code)
{
    if (!download->done) {
        return RO_DOWNLOAD_WAITS;
    }
    *code = download->code;
    return download->code == RO_NET_OK ? RO_DOWNLOAD_ENDED
                                       : RO_DOWNLOAD_FAILED;
}

ro_download_state
ro_download_head(ro_download *download, ro_head *head, ro_net_code *code)
{
    ro_download_state state = RO_DOWNLOAD_READY;

    if (!is_ours(download->mailbox)) {
        *code = RO_NET_FORKED;
        return RO_DOWNLOAD_FAILED;
    }
    pthread_mutex_lock(&download->mailbox->lock);
    if (download->has_head) {
        *head = download->head;
    }
    else {
        state = end_of(download, code);
    }
    pthread_mutex_unlock(&download->mailbox->lock);
    return state;
}

ro_download_state
ro_download_read(ro_download *download, char **bytes, size_t *len,
                 ro_net_code *code)
{
    ro_download_state state = RO_DOWNLOAD_READY;

    if (!is_ours(download->mailbox)) {
        *code = RO_NET_FORKED;
        return RO_DOWNLOAD_FAILED;
    }
    bool resume = false;
    pthread_mutex_lock(&download->mailbox->lock);
    if (download->queue.len > 0) {
        *bytes = ro_buf_steal(&download->queue, len);
        resume = download->full;
        download->full = false;
    }
    else {
        state = end_of(download, code);
    }
    pthread_mutex_unlock(&download->mailbox->lock);
    if (resume) {
        ro_transfer_resume(download->transfer);
    }
    return state;
}
