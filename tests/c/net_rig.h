/* A receiver for one transfer, and requests to a local server, for the tests
 * of net/. One answer at a time each.
 */
#ifndef RO_TEST_NET_RIG_H
#define RO_TEST_NET_RIG_H

#include <time.h>

#include "check.h"
#include "core/limits.h"
#include "local_server.h"
#include "net/net.h"
#include "worker_time.h"

/* ---- a receiver ---- */

struct answer {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_head;
    bool done;
    unsigned n_done;
    ro_net_code code;
    long status;
    int version;
    char reason[64];
    char headers[4096]; /* "name=value\n" */
    char body[8192];    /* the first bytes */
    size_t body_len;    /* all of them */
    size_t pause_at;    /* pause once when so much is there */
    bool paused;
    ro_sink_verdict on_head;
    ro_sink_verdict on_data;
};

static inline ro_sink_verdict
take_head(void *ctx, const ro_head *head)
{
    struct answer *answer = ctx;
    size_t len = 0;

    pthread_mutex_lock(&answer->lock);
    answer->has_head = true;
    answer->status = head->status;
    answer->version = head->version;
    snprintf(answer->reason, sizeof(answer->reason), "%.*s",
             (int)head->reason.len, head->reason.ptr);
    for (size_t i = 0; i < head->n_headers && len < 4000; i++) {
        len += (size_t)snprintf(
            answer->headers + len, sizeof(answer->headers) - len,
            "%.*s=%.*s\n", (int)head->headers[i].name.len,
            head->headers[i].name.ptr, (int)head->headers[i].value.len,
            head->headers[i].value.ptr);
    }
    ro_sink_verdict verdict = answer->on_head;
    pthread_cond_broadcast(&answer->changed);
    pthread_mutex_unlock(&answer->lock);
    return verdict;
}

static inline ro_sink_verdict
take_data(void *ctx, const char *bytes, size_t len)
{
    struct answer *answer = ctx;
    ro_sink_verdict verdict;

    pthread_mutex_lock(&answer->lock);
    if (answer->pause_at != 0 && answer->body_len >= answer->pause_at) {
        answer->pause_at = 0;
        answer->paused = true;
        pthread_cond_broadcast(&answer->changed);
        pthread_mutex_unlock(&answer->lock);
        return RO_SINK_PAUSE;
    }
    for (size_t i = 0; i < len && answer->body_len + i + 1 < 8192; i++) {
        answer->body[answer->body_len + i] = bytes[i];
    }
    answer->body_len += len;
    verdict = answer->on_data;
    pthread_cond_broadcast(&answer->changed);
    pthread_mutex_unlock(&answer->lock);
    return verdict;
}

static inline void
take_done(void *ctx, ro_net_code code)
{
    struct answer *answer = ctx;

    pthread_mutex_lock(&answer->lock);
    answer->n_done++;
    answer->done = true;
    answer->code = code;
    pthread_cond_broadcast(&answer->changed);
    pthread_mutex_unlock(&answer->lock);
}

static inline void
answer_reset(struct answer *answer)
{
    memset(answer, 0, sizeof(*answer));
    pthread_mutex_init(&answer->lock, NULL);
    pthread_cond_init(&answer->changed, NULL);
}

/* Waits until *flag; false after five seconds. */
static inline bool
answer_await(struct answer *answer, const bool *flag)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5;
    pthread_mutex_lock(&answer->lock);
    while (!*flag
           && pthread_cond_timedwait(&answer->changed, &answer->lock, &until)
                  == 0) {
    }
    bool set = *flag;
    pthread_mutex_unlock(&answer->lock);
    return set;
}

/* Neither done nor more than max bytes of the body so far. */
static inline bool
answer_waits(struct answer *answer, size_t max)
{
    pthread_mutex_lock(&answer->lock);
    bool waits = !answer->done && answer->body_len <= max;
    pthread_mutex_unlock(&answer->lock);
    return waits;
}

static inline void
net_end(ro_net *net)
{
    CHECK(ro_net_shut_down(net, 2000));
    ro_net_free(net);
}

/* ---- requests ---- */

static inline ro_request
request_of(const char *method, const char *url, const char *body)
{
    ro_request request = {
        .method = method,
        .url = url,
        .proxy = "",
        .cafile = "",
        .capath = "",
        .connect_ms = 3000,
        .read_ms = 3000,
        .write_ms = 3000,
        .max_headers = RO_MAX_HEADERS,
    };
    if (body != NULL) {
        request.has_body = true;
        request.body = ro_slice_str(body);
    }
    return request;
}

static inline const char *
url_of(const struct server *server, char *room, const char *path)
{
    snprintf(room, 128, "http://127.0.0.1:%d%s", server->port, path);
    return room;
}

static inline void
nap(int ms)
{
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

static inline ro_net_code
submit(ro_net *net, const ro_request *request, struct answer *answer,
       ro_transfer **out)
{
    ro_sink sink = {answer, take_head, take_data, take_done};
    return ro_net_submit(net, request, &sink, out);
}

/* The code of the whole exchange. */
static inline ro_net_code
fetch_with(ro_net *net, const ro_request *request, struct answer *answer)
{
    ro_transfer *transfer = NULL;
    ro_net_code code = submit(net, request, answer, &transfer);
    if (code != RO_NET_OK) {
        return code;
    }
    CHECK(answer_await(answer, &answer->done));
    ro_transfer_release(transfer);
    return answer->code;
}

static inline ro_net_code
fetch(ro_net *net, struct server *server, const char *method, const char *body,
      struct answer *answer)
{
    char url[128];
    ro_request request = request_of(method, url_of(server, url, "/x"), body);
    answer_reset(answer);
    return fetch_with(net, &request, answer);
}

static inline uint64_t
connections(ro_net *net)
{
    ro_net_stats stats;
    ro_net_get_stats(net, &stats);
    return stats.connections;
}

#endif
