/* A stdio server: one child and one thread that pumps its lines.
 *
 * The pump owns the child and its descriptors from start to end. The worker
 * owns what the lines mean. Between them: `outgoing` and the flags under
 * `lock`, and lines that travel by ro_net_run, at most BACKLOG bytes of them.
 */
#include "net/channel.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/limits.h"
#include "net/child.h"

/* bytes of lines on their way to the worker before the pump stops reading */
#define BACKLOG (2u * RO_MAX_STDIO_LINE)
/* milliseconds between the steps of the child's end */
#define END_TERM_MS 100
#define END_KILL_MS 400
/* bytes that a letter costs beside its line */
#define LETTER 128u
/* milliseconds between two tries to tell the worker, when out of memory */
#define RETRY_MS 20
/* bytes of one read */
#define CHUNK 16384
/* reads after the child's exit: more than a pipe holds, whoever still writes
 */
#define LAST_READS 128

typedef enum ending {
    RUNNING,
    CLOSED_INPUT, /* standard input is closed, SIGTERM is next */
    TERMINATED,   /* SIGTERM is sent, SIGKILL is next */
    KILLED,
} ending;

typedef struct ro_stdio {
    ro_session *session;
    ro_net *net;
    pthread_t thread;
    int wake_fd;
    pthread_mutex_t lock;
    ro_buf outgoing;   /* lock */
    size_t travelling; /* lock: bytes of letters the worker has not read */
    bool end;          /* lock: the child is to end */
    bool awaited;      /* lock: the end of the process waits for the child */
    bool gone;         /* lock: it has ended */
    bool now;          /* lock: without grace */
    ro_child child;    /* pump from here on */
    ending stage;
    int64_t next_ms; /* of the next step of the end */
    ro_buf line;
    ro_buf writing;
    size_t written;
    bool closed;         /* nothing more is taken from it */
    bool too_large;      /* because a line passed its bound */
    bool told;           /* the worker knows */
    unsigned last_reads; /* after the child's exit */
} ro_stdio;

typedef struct letter {
    ro_stdio *stdio;
    bool closed;
    bool too_large;
    size_t len;
    char bytes[];
} letter;

/* ---- from the pump to the worker ---- */

static void
wake(ro_stdio *stdio)
{
    uint64_t one = 1;
    while (write(stdio->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

static void
deliver(void *ctx)
{
    letter *mail = ctx;
    ro_stdio *stdio = mail->stdio;
    if (mail->closed) {
        if (mail->too_large) {
            ro_channel_too_large(stdio->session);
        }
        ro_channel_closed(stdio->session, "exited");
    }
    else {
        ro_channel_count(stdio->session, mail->len);
        ro_channel_message(stdio->session, ro_slice_of(mail->bytes, mail->len),
                           true);
    }
    pthread_mutex_lock(&stdio->lock);
    stdio->travelling -= LETTER + mail->len;
    pthread_mutex_unlock(&stdio->lock);
    wake(stdio);
    ro_free(mail);
}

static ro_net_code
post(ro_stdio *stdio, ro_slice line, bool closed)
{
    letter *mail = ro_malloc(sizeof(*mail) + line.len);
    if (mail == NULL) {
        return RO_NET_NO_MEMORY;
    }
    *mail = (letter){
        .stdio = stdio,
        .closed = closed,
        .too_large = stdio->too_large,
        .len = line.len,
    };
    if (line.len != 0) {
        memcpy(mail->bytes, line.ptr, line.len);
    }
    pthread_mutex_lock(&stdio->lock);
    stdio->travelling += LETTER + line.len;
    pthread_mutex_unlock(&stdio->lock);
    ro_net_code code = ro_net_run(stdio->net, deliver, mail);
    if (code != RO_NET_OK) {
        pthread_mutex_lock(&stdio->lock);
        stdio->travelling -= LETTER + line.len;
        pthread_mutex_unlock(&stdio->lock);
        ro_free(mail);
    }
    return code;
}

static void
ask_end(ro_stdio *stdio, bool now)
{
    pthread_mutex_lock(&stdio->lock);
    stdio->end = true;
    stdio->now = stdio->now || now;
    pthread_mutex_unlock(&stdio->lock);
    wake(stdio);
}

/* Nothing more is taken; the pump tells the worker. */
static void
stop_taking(ro_stdio *stdio)
{
    if (!stdio->closed) {
        stdio->closed = true;
        ask_end(stdio, false);
    }
}

/* Tried again until there is memory for it: exchanges wait for it. */
static void
tell_closed(ro_stdio *stdio)
{
    stdio->told = post(stdio, ro_slice_of("", 0), true) != RO_NET_NO_MEMORY;
}

/* ---- reading ---- */

/* False when a line passed its bound or was lost. */
static bool
take_bytes(ro_stdio *stdio, const char *bytes, size_t len)
{
    while (len != 0) {
        const char *feed = memchr(bytes, '\n', len);
        size_t part = feed == NULL ? len : (size_t)(feed - bytes);
        ro_buf_code code = ro_buf_append(&stdio->line, bytes, part);
        if (code != RO_BUF_OK) {
            stdio->too_large = code == RO_BUF_TOO_LARGE;
            return false;
        }
        if (feed == NULL) {
            return true;
        }
        ro_slice line = ro_buf_slice(&stdio->line);
        if (line.len != 0 && line.ptr[line.len - 1] == '\r') {
            line.len--;
        }
        if (post(stdio, line, false) != RO_NET_OK) {
            return false;
        }
        ro_buf_clear(&stdio->line);
        bytes += part + 1;
        len -= part + 1;
    }
    return true;
}

/* Read once; false at the end of what the child has written. */
static bool
read_some(ro_stdio *stdio)
{
    char chunk[CHUNK];
    ssize_t got = read(stdio->child.out_fd, chunk, sizeof(chunk));
    if (got < 0) {
        return errno == EINTR;
    }
    if (got == 0) {
        stop_taking(stdio);
        return false;
    }
    if (stdio->closed) {
        return true; /* read on, so that the child can end */
    }
    if (!take_bytes(stdio, chunk, (size_t)got)) {
        stop_taking(stdio);
    }
    return true;
}

/* ---- writing ---- */

static void
close_input(ro_stdio *stdio)
{
    if (stdio->child.in_fd >= 0) {
        (void)close(stdio->child.in_fd);
        stdio->child.in_fd = -1;
    }
}

static void
write_some(ro_stdio *stdio)
{
    if (stdio->written == stdio->writing.len) {
        ro_buf_clear(&stdio->writing);
        stdio->written = 0;
        pthread_mutex_lock(&stdio->lock);
        ro_buf swap = stdio->writing;
        stdio->writing = stdio->outgoing;
        stdio->outgoing = swap;
        pthread_mutex_unlock(&stdio->lock);
    }
    if (stdio->written == stdio->writing.len) {
        return;
    }
    ssize_t done
        = write(stdio->child.in_fd, stdio->writing.data + stdio->written,
                stdio->writing.len - stdio->written);
    if (done >= 0) {
        stdio->written += (size_t)done;
    }
    else if (errno != EAGAIN && errno != EINTR) {
        close_input(stdio); /* it reads no more; it may still answer */
    }
}

/* ---- the end of the child ---- */

static void
step_end(ro_stdio *stdio, bool now)
{
    int64_t clock = ro_net_now_ms();
    if (stdio->stage == RUNNING) {
        close_input(stdio);
        stdio->stage = CLOSED_INPUT;
        stdio->next_ms = clock + END_TERM_MS;
    }
    if (stdio->stage == CLOSED_INPUT && clock >= stdio->next_ms) {
        ro_child_signal(&stdio->child, SIGTERM);
        stdio->stage = TERMINATED;
        stdio->next_ms = clock + END_KILL_MS;
    }
    if (now || (stdio->stage == TERMINATED && clock >= stdio->next_ms)) {
        ro_child_signal(&stdio->child, SIGKILL);
        stdio->stage = KILLED;
    }
}

/* The child has exited: what it wrote is in the pipe, whoever else holds the
 * other end. One read a turn, so that the backlog counts. */
static void
step_gone(ro_stdio *stdio)
{
    if (!stdio->closed && stdio->last_reads++ < LAST_READS
        && read_some(stdio)) {
        return;
    }
    stop_taking(stdio);
    ro_child_signal(&stdio->child, SIGKILL); /* what it left in its group */
    (void)ro_child_reap(&stdio->child);
}

static bool
has_exited(const ro_stdio *stdio)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)stdio->child.pid, &info,
                  WEXITED | WNOHANG | WNOWAIT)
               != 0
           || info.si_pid != 0;
}

/* ---- the pump ---- */

/* Milliseconds to sleep at most; -1 for ever. */
static int
patience(const ro_stdio *stdio)
{
    int64_t left = stdio->next_ms - ro_net_now_ms();
    if (stdio->closed && !stdio->told) {
        return RETRY_MS;
    }
    if (stdio->stage == RUNNING && stdio->child.pidfd >= 0) {
        return -1;
    }
    if (stdio->stage == RUNNING || stdio->stage == KILLED) {
        return 50; /* looks for the exit without a pidfd */
    }
    return left < 0 ? 0 : (int)left;
}

static void
turn(ro_stdio *stdio)
{
    pthread_mutex_lock(&stdio->lock);
    bool full = stdio->travelling > BACKLOG;
    bool end = stdio->end;
    bool now = stdio->now;
    bool pending
        = stdio->outgoing.len != 0 || stdio->written != stdio->writing.len;
    pthread_mutex_unlock(&stdio->lock);
    if (end) {
        step_end(stdio, now);
    }
    struct pollfd fds[4] = {
        {.fd = stdio->wake_fd, .events = POLLIN},
        {.fd = full ? -1 : stdio->child.pidfd, .events = POLLIN},
        {.fd = full ? -1 : stdio->child.out_fd, .events = POLLIN},
        {.fd = pending ? stdio->child.in_fd : -1, .events = POLLOUT},
    };
    if (poll(fds, 4, patience(stdio)) < 0) {
        return;
    }
    if (fds[0].revents != 0) {
        uint64_t count;
        (void)!read(stdio->wake_fd, &count, sizeof(count));
    }
    if (fds[3].revents != 0) {
        write_some(stdio);
    }
    if (fds[2].revents != 0 && !read_some(stdio) && stdio->closed) {
        (void)close(stdio->child.out_fd);
        stdio->child.out_fd = -1;
    }
    if (!full && has_exited(stdio)) {
        step_gone(stdio);
    }
    if (stdio->closed && !stdio->told) {
        tell_closed(stdio);
    }
}

static void *
pump(void *arg)
{
    ro_stdio *stdio = arg;
    while (stdio->child.pid > 0) {
        turn(stdio);
    }
    while (!stdio->told) {
        (void)poll(NULL, 0, RETRY_MS);
        tell_closed(stdio);
    }
    ro_child_close(&stdio->child);
    pthread_mutex_lock(&stdio->lock);
    bool awaited = stdio->awaited;
    stdio->gone = true;
    pthread_mutex_unlock(&stdio->lock);
    if (awaited) {
        ro_mcp_release(stdio->session->mcp);
    }
    return NULL;
}

/* ---- the channel ---- */

/* Queue one line; false when it cannot be. */
static bool
queue_line(ro_stdio *stdio, ro_slice message)
{
    pthread_mutex_lock(&stdio->lock);
    size_t before = stdio->outgoing.len;
    bool queued = ro_buf_append_slice(&stdio->outgoing, message) == RO_BUF_OK
                  && ro_buf_append_char(&stdio->outgoing, '\n') == RO_BUF_OK;
    if (!queued) {
        stdio->outgoing.len = before;
    }
    pthread_mutex_unlock(&stdio->lock);
    wake(stdio);
    return queued;
}

static void
stdio_send(ro_session *session, ro_exchange *exchange, ro_slice message)
{
    if (!queue_line(session->carrier, message)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
    }
    else if (exchange->kind == RO_KIND_NOTIFY) {
        ro_exchange_reply(exchange, 202, NULL);
    }
}

static void
stdio_answer(ro_session *session, ro_slice message)
{
    (void)queue_line(session->carrier, message);
}

static void
stdio_end(ro_session *session)
{
    ro_stdio *stdio = session->carrier;
    ro_mcp_await(session->mcp); /* before the pump can release it */
    pthread_mutex_lock(&stdio->lock);
    bool first = !stdio->awaited && !stdio->gone;
    if (first) {
        stdio->awaited = true;
    }
    pthread_mutex_unlock(&stdio->lock);
    if (!first) {
        ro_mcp_release(session->mcp);
    }
    ask_end(stdio, false);
}

static void
stdio_free(ro_session *session)
{
    ro_stdio *stdio = session->carrier;
    ask_end(stdio, true);
    (void)pthread_join(stdio->thread, NULL);
    ro_buf_free(&stdio->outgoing);
    ro_buf_free(&stdio->writing);
    ro_buf_free(&stdio->line);
    (void)pthread_mutex_destroy(&stdio->lock);
    (void)close(stdio->wake_fd);
    ro_free(stdio);
}

const struct ro_channel ro_stdio_channel = {
    .send = stdio_send,
    .answer = stdio_answer,
    .end = stdio_end,
    .free = stdio_free,
};

static bool
start_thread(ro_stdio *stdio)
{
    sigset_t all;
    sigset_t old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = pthread_create(&stdio->thread, NULL, pump, stdio);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = failed;
    return failed == 0;
}

bool
ro_stdio_start(ro_session *session, char *const argv[], char *const envp[])
{
    ro_stdio *stdio = ro_calloc(1, sizeof(*stdio));
    if (stdio == NULL) {
        errno = ENOMEM;
        return false;
    }
    stdio->session = session;
    stdio->net = session->mcp->net;
    ro_buf_init(&stdio->outgoing, RO_MAX_REQUEST * 2);
    ro_buf_init(&stdio->writing, RO_MAX_REQUEST * 2);
    ro_buf_init(&stdio->line, RO_MAX_STDIO_LINE);
    stdio->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stdio->wake_fd < 0) {
        ro_free(stdio);
        return false;
    }
    (void)pthread_mutex_init(&stdio->lock, NULL);
    if (ro_child_spawn(&stdio->child, argv, envp)) {
        /* before the first line can arrive */
        session->carrier = stdio;
        session->channel = &ro_stdio_channel;
        if (start_thread(stdio)) {
            return true;
        }
        session->carrier = NULL;
        session->channel = NULL;
        ro_child_signal(&stdio->child, SIGKILL);
        while (!ro_child_reap(&stdio->child)) {
            (void)poll(NULL, 0, 1);
        }
        ro_child_close(&stdio->child);
        errno = EAGAIN;
    }
    int failed = errno;
    (void)pthread_mutex_destroy(&stdio->lock);
    (void)close(stdio->wake_fd);
    ro_free(stdio);
    errno = failed;
    return false;
}
