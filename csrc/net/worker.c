#include "net/internal.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "core/alloc.h"

typedef struct run_command {
    ro_command command;
    void (*fn)(void *ctx);
    void *ctx;
} run_command;

int64_t
ro_net_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the queue ---- */

static void
wake(ro_net *net)
{
    uint64_t one = 1;
    /* It fails only when the counter is full: then the worker wakes up. */
    while (write(net->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

ro_net_code
ro_net_push(ro_net *net, ro_command *command, unsigned todo)
{
    bool was_empty = false;

    pthread_mutex_lock(&net->lock);
    if (net->closing) {
        pthread_mutex_unlock(&net->lock);
        return RO_NET_SHUT_DOWN;
    }
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
    if (net->holding) {
        pthread_cond_signal(&net->pushed);
    }
    pthread_mutex_unlock(&net->lock);
    if (was_empty) {
        wake(net);
    }
    return RO_NET_OK;
}

ro_command *
ro_net_peek_locked(ro_net *net)
{
    return net->first;
}

ro_command *
ro_net_pop_locked(ro_net *net, unsigned *todo)
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
call(ro_command *command)
{
    run_command *run = (run_command *)command;
    run->fn(run->ctx);
    ro_free(run);
}

void
ro_net_obey_runs(ro_net *net)
{
    for (;;) {
        unsigned todo = 0;
        ro_command *command = NULL;
        pthread_mutex_lock(&net->lock);
        if (net->first != NULL && net->first->todo == RO_DO_RUN
            && !net->closing) {
            command = ro_net_pop_locked(net, &todo);
        }
        pthread_mutex_unlock(&net->lock);
        if (command == NULL) {
            return;
        }
        call(command);
    }
}

bool
ro_net_is_idle(ro_net *net)
{
    pthread_mutex_lock(&net->lock);
    bool idle = net->first == NULL && !net->closing;
    pthread_mutex_unlock(&net->lock);
    return idle;
}

/* True when the net is closing and nothing is left to do. */
static bool
obey(ro_net *net)
{
    for (;;) {
        unsigned todo = 0;
        pthread_mutex_lock(&net->lock);
        ro_command *command = ro_net_pop_locked(net, &todo);
        bool closing = net->closing;
        pthread_mutex_unlock(&net->lock);
        if (command == NULL) {
            return closing;
        }
        if (todo == RO_DO_RUN) {
            call(command);
            continue;
        }
        ro_transfer *transfer = (ro_transfer *)command;
        if (todo & RO_DO_WARM) {
            if (!closing) {
                ro_warm_begin(net, transfer);
            }
        }
        else if (closing) {
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
    return ro_timers_add(&net->timers, ro_net_now_ms() + ms, fn, ctx);
}

void
ro_timer_stop(ro_net *net, ro_timer *timer)
{
    ro_timers_remove(&net->timers, timer);
}

/* ---- the thread ---- */

static void
collect(ro_net *net)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(net->multi, &left)) != NULL) {
        char *flight = NULL;
        if (message->msg != CURLMSG_DONE) {
            continue;
        }
        CURLcode result = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &flight);
        ro_flight *landed = (ro_flight *)(void *)flight;
        ro_flight_land(landed, ro_net_map(landed, result));
    }
}

static void
fire(ro_net *net)
{
    int64_t now = ro_net_now_ms();
    void (*fn)(void *ctx);
    void *ctx;

    while (ro_timers_take(&net->timers, now, &fn, &ctx)) {
        fn(ctx);
    }
}

static void
rest(ro_net *net)
{
    struct curl_waitfd extra
        = {.fd = net->wake_fd, .events = CURL_WAIT_POLLIN};
    int64_t wait = ro_timers_wait(&net->timers, ro_net_now_ms());
    uint64_t count;

    if (wait < 0 || wait > 60000) {
        wait = 60000; /* only so that it fits an int */
    }
    curl_multi_poll(net->multi, &extra, 1, (int)wait, NULL);
    if (extra.revents != 0 && read(net->wake_fd, &count, sizeof(count)) < 0) {
        return; /* EAGAIN: somebody else's wake-up was enough */
    }
}

static void
bring_down(ro_net *net)
{
    while (net->flights != NULL) {
        ro_flight_land(net->flights, RO_NET_SHUT_DOWN);
    }
    while (net->n_spare > 0) {
        curl_easy_cleanup(net->spare[--net->n_spare]);
    }
    curl_multi_cleanup(net->multi);
    net->multi = NULL;
    ro_timers_free(&net->timers);
    for (size_t i = 0; i < RO_NET_ORIGINS; i++) {
        ro_free(net->origins[i].key);
        net->origins[i].key = NULL;
    }
}

static void *
work(void *ctx)
{
    ro_net *net = ctx;
    int running;

    while (!obey(net)) {
        curl_multi_perform(net->multi, &running);
        collect(net);
        fire(net);
        rest(net);
    }
    bring_down(net);
    pthread_mutex_lock(&net->lock);
    net->ended = true;
    pthread_cond_broadcast(&net->gone);
    pthread_mutex_unlock(&net->lock);
    return NULL;
}

/* ---- life ---- */

static bool
start_worker(ro_net *net)
{
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t before;

    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    pthread_attr_setstacksize(&attributes, RO_NET_STACK);
    /* The worker, and the resolver's threads that it starts, leave every
     * signal to the program's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = pthread_create(&net->thread, &attributes, work, net) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return ok;
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
    pthread_cond_destroy(&net->gone);
    pthread_cond_destroy(&net->pushed);
    pthread_mutex_destroy(&net->lock);
    ro_free(net);
}

ro_net *
ro_net_new(void)
{
    pthread_condattr_t monotonic;

    if (!ro_net_global_init()) {
        return NULL;
    }
    ro_net *net = ro_calloc(1, sizeof(*net));
    if (net == NULL) {
        return NULL;
    }
    net->pid = getpid();
    pthread_mutex_init(&net->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&net->pushed, &monotonic);
    pthread_cond_init(&net->gone, &monotonic);
    pthread_condattr_destroy(&monotonic);
    net->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
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
    struct timespec until;

    if (net == NULL) {
        return true;
    }
    if (getpid() != net->pid) {
        return false;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&net->lock);
    net->closing = true;
    if (net->holding) {
        pthread_cond_signal(&net->pushed);
    }
    pthread_mutex_unlock(&net->lock);
    wake(net);
    pthread_mutex_lock(&net->lock);
    while (!net->ended
           && pthread_cond_timedwait(&net->gone, &net->lock, &until) == 0) {
    }
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
