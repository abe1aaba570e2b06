/* Everything happens on the worker: it watches the child's pipes and its
 * pidfd, and timers step its end. Only the start and the last clean-up, when
 * the worker is gone, are another thread's.
 */
#include "mcp/stdio.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/limits.h"
#include "core/monotonic.h"
#include "mcp/child.h"
#include "mcp/ending.h"
#include "mcp/exchange.h"
#include "mcp/waiting.h"
#include "net/watch.h"

/* milliseconds: between two looks for the exit of a child without a pidfd */
#define LOOK_MS 50
/* bytes: one read */
#define CHUNK 16384
/* reads: one turn of the worker, which has others to serve */
#define TURN_READS 4

typedef enum stage {
    RUNNING,
    CLOSED_INPUT, /* standard input is closed, SIGTERM is next */
    TERMINATED,   /* SIGTERM is sent, SIGKILL is next */
    KILLED,
} stage;

typedef struct ro_stdio {
    ro_session *session;
    ro_child child; /* pid is -1 when it is reaped */
    ro_watch in;
    ro_watch out;
    ro_watch exit;
    ro_timer *timer; /* the next step, if time brings one */
    stage stage;
    int64_t step_ms;         /* of the next step of the end */
    int64_t answer_until_ms; /* it reads no more: its answers count until
                                then; 0: it reads */
    ro_buf line;
    ro_buf outgoing;
    size_t written; /* bytes of outgoing */
    bool closed;    /* nothing more is taken from it */
    bool awaited;   /* the end of the process waits for the child */
} ro_stdio;

static ro_net *
net_of(const ro_stdio *stdio)
{
    return stdio->session->mcp->net;
}

static void
close_watched(ro_stdio *stdio, ro_watch *watch, int *fd)
{
    ro_net_unwatch(net_of(stdio), watch);
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

/* ---- steps that time brings ---- */

static void on_time(void *ctx);

/* The monotonic millisecond of the next step; -1 for none. */
static int64_t
next_step(const ro_stdio *stdio)
{
    int64_t step = stdio->stage == CLOSED_INPUT || stdio->stage == TERMINATED
                       ? stdio->step_ms
                   : stdio->stage == RUNNING && stdio->answer_until_ms != 0
                       ? stdio->answer_until_ms
                       : -1;
    int64_t look = ro_monotonic_ms() + LOOK_MS;
    return stdio->child.pidfd < 0 && (step < 0 || look < step) ? look : step;
}

static void
set_timer(ro_stdio *stdio)
{
    int64_t left = next_step(stdio) - ro_monotonic_ms();
    if (stdio->timer != NULL) {
        ro_timer_stop(net_of(stdio), stdio->timer);
        stdio->timer = NULL;
    }
    if (stdio->child.pid <= 0 || next_step(stdio) < 0) {
        return;
    }
    stdio->timer = ro_net_after(net_of(stdio), left < 0 ? 0 : (int)left,
                                on_time, stdio);
    if (stdio->timer == NULL) { /* without a clock there is no grace */
        stdio->stage = KILLED;
        ro_child_signal(&stdio->child, SIGKILL);
    }
}

static void
close_input(ro_stdio *stdio)
{
    close_watched(stdio, &stdio->in, &stdio->child.in_fd);
}

/* Ask the child to end, by its standard input first. */
static void
begin_end(ro_stdio *stdio)
{
    if (stdio->stage == RUNNING && stdio->child.pid > 0) {
        close_input(stdio);
        stdio->stage = CLOSED_INPUT;
        stdio->step_ms = ro_monotonic_ms() + RO_STDIO_TERM_MS;
        set_timer(stdio);
    }
}

/* Nothing more is taken from it. It is read on, so that it can end. */
static void
stop_taking(ro_stdio *stdio, ro_reason reason)
{
    if (!stdio->closed) {
        stdio->closed = true;
        begin_end(stdio);
        ro_waiting_closed(stdio->session, reason);
    }
}

/* ---- reading ---- */

static void
take_line(ro_stdio *stdio)
{
    ro_slice line = ro_buf_slice(&stdio->line);
    if (line.len != 0 && line.ptr[line.len - 1] == '\r') {
        line.len--;
    }
    ro_waiting_count(stdio->session, line.len);
    ro_waiting_message(stdio->session, line);
    ro_buf_clear(&stdio->line);
}

static void
take_bytes(ro_stdio *stdio, const char *bytes, size_t len)
{
    while (len != 0 && !stdio->closed) {
        const char *feed = memchr(bytes, '\n', len);
        size_t part = feed == NULL ? len : (size_t)(feed - bytes);
        ro_buf_code code = ro_buf_append(&stdio->line, bytes, part);
        if (code == RO_BUF_TOO_LARGE) {
            ro_waiting_too_large(stdio->session, RO_REASON_LINE_TOO_LARGE);
            /* The reason stays for requests that come later. */
            stop_taking(stdio, RO_REASON_LINE_TOO_LARGE);
            return;
        }
        if (code != RO_BUF_OK) {
            stop_taking(stdio, RO_REASON_MEMORY);
            return;
        }
        if (feed == NULL) {
            return;
        }
        take_line(stdio);
        bytes += part + 1;
        len -= part + 1;
    }
}

/* Read up to so many times; false when there was nothing to read. */
static bool
read_some(ro_stdio *stdio, unsigned times)
{
    char chunk[CHUNK];
    bool some = false;
    while (times-- != 0 && stdio->child.out_fd >= 0) {
        ssize_t got = read(stdio->child.out_fd, chunk, sizeof(chunk));
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            break;
        }
        some = true;
        if (got <= 0) { /* whoever could write has closed it */
            close_watched(stdio, &stdio->out, &stdio->child.out_fd);
            stop_taking(stdio, RO_REASON_EXITED);
            break;
        }
        take_bytes(stdio, chunk, (size_t)got);
    }
    return some;
}

static void
on_output(void *ctx, unsigned events)
{
    (void)events; /* a hang-up is read as the end */
    (void)read_some(ctx, TURN_READS);
}

/* ---- writing ---- */

/* Nobody holds the other end of its standard input any more. What is sent
 * from here on cannot arrive, and what was sent may not have been read. */
static void
lose_input(ro_stdio *stdio)
{
    close_input(stdio);
    if (stdio->stage == RUNNING && stdio->answer_until_ms == 0) {
        stdio->answer_until_ms = ro_monotonic_ms() + RO_STDIO_CLOSED_MS;
        set_timer(stdio);
    }
}

/* Write what the pipe takes; the rest when it has room again. */
static void
write_some(ro_stdio *stdio)
{
    ro_buf *outgoing = &stdio->outgoing;
    while (stdio->child.in_fd >= 0 && stdio->written != outgoing->len) {
        ssize_t done
            = write(stdio->child.in_fd, outgoing->data + stdio->written,
                    outgoing->len - stdio->written);
        if (done >= 0) {
            stdio->written += (size_t)done;
        }
        else if (errno == EAGAIN) {
            break;
        }
        else if (errno != EINTR) {
            lose_input(stdio);
        }
    }
    if (stdio->written == outgoing->len) {
        ro_buf_clear(outgoing);
        stdio->written = 0;
    }
    if (stdio->child.in_fd >= 0
        && !ro_net_watch(net_of(stdio), &stdio->in,
                         outgoing->len == 0 ? 0 : EPOLLOUT)) {
        lose_input(stdio);
    }
}

static void
on_input(void *ctx, unsigned events)
{
    if ((events & EPOLLERR) != 0) {
        lose_input(ctx);
    }
    else {
        write_some(ctx);
    }
}

/* False when the line cannot be queued. */
static bool
send_line(ro_stdio *stdio, ro_slice message)
{
    ro_buf *outgoing = &stdio->outgoing;
    size_t before = outgoing->len;
    if (ro_buf_append_slice(outgoing, message) != RO_BUF_OK
        || ro_buf_append_char(outgoing, '\n') != RO_BUF_OK) {
        outgoing->len = before;
        return false;
    }
    write_some(stdio);
    return true;
}

/* ---- the end of the child ---- */

static bool
has_exited(const ro_stdio *stdio)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)stdio->child.pid, &info,
                  WEXITED | WNOHANG | WNOWAIT)
               != 0
           || info.si_pid != 0;
}

/* It has exited. What it wrote is still in the pipe and is read, bounded,
 * since others may hold the other end. What it left in its group is killed. */
static void
clean_up(ro_stdio *stdio)
{
    for (unsigned i = 0;
         i < RO_MAX_STDIO_LAST_READS && !stdio->closed && read_some(stdio, 1);
         i++) {
    }
    stop_taking(stdio, RO_REASON_EXITED);
    ro_child_signal(&stdio->child, SIGKILL);
    (void)ro_child_reap(&stdio->child);
    set_timer(stdio); /* there is none any more */
    close_input(stdio);
    close_watched(stdio, &stdio->out, &stdio->child.out_fd);
    close_watched(stdio, &stdio->exit, &stdio->child.pidfd);
    if (stdio->awaited) {
        stdio->awaited = false;
        ro_mcp_release(stdio->session->mcp);
    }
}

static void
on_exit_seen(void *ctx, unsigned events)
{
    (void)events;
    clean_up(ctx);
}

static void
step_end(ro_stdio *stdio)
{
    if (stdio->stage == CLOSED_INPUT) {
        stdio->stage = TERMINATED;
        stdio->step_ms += RO_STDIO_KILL_MS;
        ro_child_signal(&stdio->child, SIGTERM);
    }
    else if (stdio->stage == TERMINATED) {
        stdio->stage = KILLED;
        ro_child_signal(&stdio->child, SIGKILL);
    }
    else if (stdio->stage == RUNNING && stdio->answer_until_ms != 0
             && !read_some(stdio, TURN_READS)) {
        /* it closed its input, lives on, and has had its time to answer */
        stop_taking(stdio, RO_REASON_CLOSED_INPUT);
    }
}

static void
on_time(void *ctx)
{
    ro_stdio *stdio = ctx;
    stdio->timer = NULL;
    if (stdio->child.pidfd < 0 && has_exited(stdio)) {
        clean_up(stdio);
        return;
    }
    int64_t step = next_step(stdio);
    if (step >= 0 && step <= ro_monotonic_ms()) {
        step_end(stdio);
    }
    set_timer(stdio);
}

/* ---- the carrier ---- */

static void
stdio_send(ro_exchange *exchange)
{
    ro_buf line;
    ro_buf_init(&line, RO_MAX_REQUEST);
    if (ro_waiting_enter(exchange, &line)) {
        if (!send_line(exchange->session->state, ro_buf_slice(&line))) {
            ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                             RO_REASON_MEMORY);
        }
        else if (exchange->kind == RO_KIND_NOTIFY) {
            ro_exchange_reply(exchange, 202, NULL);
        }
    }
    ro_buf_free(&line);
}

static void
stdio_answer(ro_session *session, ro_slice message)
{
    (void)send_line(session->state, message);
}

static void
stdio_end(ro_session *session)
{
    ro_stdio *stdio = session->state;
    if (!stdio->awaited && stdio->child.pid > 0) {
        stdio->awaited = true;
        ro_mcp_await(session->mcp);
    }
    begin_end(stdio);
}

/* The worker is gone: without grace. */
static void
stdio_free(void *state)
{
    ro_stdio *stdio = state;
    if (stdio == NULL) {
        return;
    }
    ro_child_signal(&stdio->child, SIGKILL);
    while (!ro_child_reap(&stdio->child)) {
        (void)poll(NULL, 0, 1);
    }
    ro_child_close(&stdio->child);
    ro_buf_free(&stdio->outgoing);
    ro_buf_free(&stdio->line);
    ro_free(stdio);
}

const ro_carrier ro_stdio_carrier = {
    .send = stdio_send,
    .answer = stdio_answer,
    .end = stdio_end,
    .free = stdio_free,
};

void *
ro_stdio_new(char *const argv[], char *const envp[], const rlim_t *core_limit)
{
    ro_stdio *stdio = ro_calloc(1, sizeof(*stdio));
    if (stdio == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    if (!ro_child_spawn(&stdio->child, argv, envp, core_limit)) {
        int failed = errno;
        ro_free(stdio);
        errno = failed;
        return NULL;
    }
    ro_buf_init(&stdio->outgoing, RO_MAX_STDIO_QUEUE);
    ro_buf_init(&stdio->line, RO_MAX_STDIO_LINE);
    stdio->in = (ro_watch){on_input, stdio, stdio->child.in_fd, false};
    stdio->out = (ro_watch){on_output, stdio, stdio->child.out_fd, false};
    stdio->exit = (ro_watch){on_exit_seen, stdio, stdio->child.pidfd, false};
    return stdio;
}

static void
start_on_worker(void *ctx)
{
    ro_stdio *stdio = ctx;
    ro_net *net = net_of(stdio);
    if (!ro_net_watch(net, &stdio->in, 0)
        || !ro_net_watch(net, &stdio->out, EPOLLIN)) {
        stop_taking(stdio, RO_REASON_INTERNAL);
    }
    if (stdio->child.pidfd >= 0 && !ro_net_watch(net, &stdio->exit, EPOLLIN)) {
        (void)close(stdio->child.pidfd);
        stdio->child.pidfd = -1;
    }
    set_timer(stdio);
}

bool
ro_stdio_start(ro_session *session)
{
    ro_stdio *stdio = session->state;
    stdio->session = session;
    if (ro_net_run(session->mcp->net, start_on_worker, stdio) == RO_NET_OK) {
        return true;
    }
    errno = EAGAIN;
    return false;
}
