#include "net/internal.h"

#include <unistd.h>

#include "core/alloc.h"
#include "core/monotonic.h"
#include "core/thread.h"
#include "core/wake.h"

/* milliseconds: one wait; only so that it fits an int */
#define MAX_WAIT_MS 60000

typedef struct run_command {
    ro_command command;
    void (*fn)(void *ctx);
    void *ctx;
} run_command;

/* ---- the queue ---- */

ro_net_code
ro_net_push(ro_net *net, ro_command *command, unsigned todo)
{
    bool was_empty = false;

    pthread_mutex_lock(&net->lock);
    if (net->closing) {
        pthread_mutex_unlock(&net->lock);
        return RO_NET_SHUT_DOWN;
    }
    /* todo is 0 unless the command is in the queue: a second command for the
     * same transfer joins the first one and needs no memory. */
    if (command->todo == 0) {
        command->next = NULL;
        was_empty = net->first == NULL;
        if (was_empty) {
            net->first = command;
        }
        else {
            net->last->next = command;
        }
        net->last = command;
        if (todo != RO_DO_RUN) {
            ro_transfer *transfer = (ro_transfer *)command;
            atomic_fetch_add(&transfer->refs, 1);
        }
    }
    command->todo |= todo;
    pthread_mutex_unlock(&net->lock);
    /* The worker empties the queue when it is woken, so that only the first
     * command has to wake it. */
    if (was_empty) {
        ro_wake_raise(net->wake_fd);
    }
    return RO_NET_OK;
}

static ro_command *
pop_locked(ro_net *net, unsigned *todo)
{
    ro_command *command = net->first;
    if (command != NULL) {
        net->first = command->next;
        *todo = command->todo;
        command->todo = 0;
    }
    return command;
}

ro_net_code
ro_net_run(ro_net *net, void (*fn)(void *ctx), void *ctx)
{
    if (getpid() != net->pid) {
        return RO_NET_FORKED;
    }
    run_command *run = ro_calloc(1, sizeof(*run));
    if (run == NULL) {
        return RO_NET_NO_MEMORY;
    }
    run->fn = fn;
    run->ctx = ctx;
    ro_net_code code = ro_net_push(net, &run->command, RO_DO_RUN);
    if (code != RO_NET_OK) {
        ro_free(run);
    }
    return code;
}

static void
run_function(ro_command *command)
{
    run_command *run = (run_command *)command;
    run->fn(run->ctx);
    ro_free(run);
}

/* True when the net is closing and nothing is left to do. */
static bool
run_commands(ro_net *net)
{
    for (;;) {
        unsigned todo = 0;
        pthread_mutex_lock(&net->lock);
        ro_command *command = pop_locked(net, &todo);
        bool closing = net->closing;
        pthread_mutex_unlock(&net->lock);
        if (command == NULL) {
            return closing;
        }
        if (todo == RO_DO_RUN) {
            run_function(command);
            continue;
        }
        ro_transfer *transfer = (ro_transfer *)command;
        if (closing) {
            ro_transfer_end(transfer, RO_NET_SHUT_DOWN);
        }
        else {
            ro_transfer_act(transfer, todo);
        }
        ro_transfer_release(transfer);
    }
}

/* ---- timers ---- */

ro_timer *
ro_net_after(ro_net *net, int ms, void (*fn)(void *ctx), void *ctx)
{
    return ro_timers_add(&net->timers, ro_monotonic_ms() + ms, fn, ctx);
}

void
ro_timer_stop(ro_net *net, ro_timer *timer)
{
    ro_timers_remove(&net->timers, timer);
}

/* ---- the thread ---- */

static void
finish_attempts(ro_net *net)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(net->multi, &left)) != NULL) {
        char *private = NULL;
        if (message->msg != CURLMSG_DONE) {
            continue;
        }
        CURLcode result = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
        ro_attempt *attempt = (ro_attempt *)(void *)private;
        ro_attempt_finish(attempt, ro_net_map(attempt, result));
    }
}

static void
fire(ro_net *net)
{
    int64_t now = ro_monotonic_ms();
    void (*fn)(void *ctx);
    void *ctx;

    while (ro_timers_take(&net->timers, now, &fn, &ctx)) {
        fn(ctx);
    }
}

static void
wait_for_events(ro_net *net)
{
    struct curl_waitfd extra[2]
        = {{.fd = net->wake_fd, .events = CURL_WAIT_POLLIN},
           {.fd = net->watch_fd, .events = CURL_WAIT_POLLIN}};
    unsigned n_extra = net->n_watches == 0 ? 1 : 2;
    int64_t wait = ro_timers_wait(&net->timers, ro_monotonic_ms());

    if (wait < 0 || wait > MAX_WAIT_MS) {
        wait = MAX_WAIT_MS;
    }
    curl_multi_poll(net->multi, extra, n_extra, (int)wait, NULL);
    if (extra[0].revents != 0) {
        ro_wake_lower(net->wake_fd);
    }
    if (extra[1].revents != 0) {
        ro_net_run_watches(net);
    }
}

static void
end_all(ro_net *net)
{
    /* Callbacks of the end may submit: the net is closing, so they are
     * refused, and no attempt comes after the last one. */
    while (net->attempts != NULL) {
        ro_attempt_finish(net->attempts, RO_NET_SHUT_DOWN);
    }
    curl_multi_cleanup(net->multi);
    net->multi = NULL;
    ro_timers_free(&net->timers);
    ro_destinations_free(&net->destinations);
    ro_sockets_free(&net->sockets);
}

static void *
work(void *ctx)
{
    ro_net *net = ctx;
    int running;

    while (!run_commands(net)) {
        ro_attempts_peek(net); /* before libcurl takes the bytes */
        curl_multi_perform(net->multi, &running);
        finish_attempts(net);
        fire(net);
        wait_for_events(net);
    }
    end_all(net);
    pthread_mutex_lock(&net->lock);
    net->ended = true;
    pthread_cond_broadcast(&net->gone);
    pthread_mutex_unlock(&net->lock);
    return NULL;
}

/* ---- life ---- */

/* The worker, and the resolver's threads that it starts, leave every signal
 * but a crash's to the program's own threads. */
static bool
start_worker(ro_net *net)
{
    return ro_thread_start(&net->thread, RO_NET_STACK, work, net) == 0;
}

static void
destroy(ro_net *net)
{
    if (net->multi != NULL) {
        curl_multi_cleanup(net->multi);
    }
    if (net->wake_fd >= 0) {
        close(net->wake_fd);
    }
    if (net->watch_fd >= 0) {
        close(net->watch_fd);
    }
    pthread_cond_destroy(&net->gone);
    pthread_mutex_destroy(&net->lock);
    ro_free(net);
}

ro_net *
ro_net_new(void)
{

    if (!ro_net_global_init()) {
        return NULL;
    }
    ro_net *net = ro_calloc(1, sizeof(*net));
    if (net == NULL) {
        return NULL;
    }
    net->pid = getpid();
    net->watch_fd = -1;
    pthread_mutex_init(&net->lock, NULL);
    (void)ro_cond_init(&net->gone);
    net->wake_fd = ro_wake_new();
    net->multi = curl_multi_init();
    if (net->wake_fd < 0 || net->multi == NULL
        || curl_multi_setopt(net->multi, CURLMOPT_MAXCONNECTS, RO_NET_POOL)
               != CURLM_OK
        || !start_worker(net)) {
        destroy(net);
        return NULL;
    }
    return net;
}

bool
ro_net_shut_down(ro_net *net, int wait_ms)
{

    if (net == NULL) {
        return true;
    }
    if (getpid() != net->pid) {
        return false;
    }
    int64_t until = ro_monotonic_ms() + wait_ms;
    pthread_mutex_lock(&net->lock);
    net->closing = true;
    pthread_mutex_unlock(&net->lock);
    ro_wake_raise(net->wake_fd);
    pthread_mutex_lock(&net->lock);
    while (!net->ended && ro_cond_wait_until(&net->gone, &net->lock, until)) {
    }
    /* Two threads may wait here; one of them joins. */
    bool ended = net->ended;
    bool join = ended && !net->joined;
    net->joined = net->joined || join;
    pthread_mutex_unlock(&net->lock);
    if (join) {
        pthread_join(net->thread, NULL);
    }
    return ended;
}

void
ro_net_free(ro_net *net)
{
    if (net == NULL || getpid() != net->pid) {
        return;
    }
    pthread_mutex_lock(&net->lock);
    bool joined = net->joined;
    pthread_mutex_unlock(&net->lock);
    if (joined) {
        destroy(net);
    }
}

void
ro_net_get_stats(ro_net *net, ro_net_stats *stats)
{
    stats->transfers = atomic_load(&net->n_transfers);
    stats->connections = atomic_load(&net->n_connections);
    stats->bytes_in = atomic_load(&net->n_bytes_in);
    stats->active = atomic_load(&net->n_active);
}
