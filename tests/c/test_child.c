/* A child that cannot be started, or is not seen or served as it should be:
 * system calls that fail, one at a time. The children are /bin/sh. */
#undef _FORTIFY_SOURCE /* a checked read would not be the one below */
#include "refusing.h"
#include "entries.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mcp/child.h"
#include "session_rig.h"

REFUSABLE(int, pipe2, (int ends[2], int flags), -1, ends, flags)
REFUSABLE(DIR *, opendir, (const char *path), NULL, path)
REFUSABLE(pid_t, setsid, (void), -1)
REFUSABLE(pid_t, getppid, (void), 1)
REFUSABLE(int, dup2, (int fd, int place), -1, fd, place)
REFUSABLE(pid_t, waitpid, (pid_t pid, int *status, int options), -1, pid,
          status, options)
REFUSABLE(int, epoll_ctl, (int set, int what, int fd, struct epoll_event *one),
          -1, set, what, fd, one)

static struct refusal refuse_fcntl;

int
fcntl(int fd, int what, ...)
{
    va_list arguments;
    va_start(arguments, what);
    long value = va_arg(arguments, long);
    va_end(arguments);
    return refusal_hits(&refuse_fcntl) ? -1 : REAL(fcntl)(fd, what, value);
}

static struct refusal refuse_prctl;

int
prctl(int what, ...)
{
    va_list arguments;
    unsigned long values[4];
    va_start(arguments, what);
    for (size_t i = 0; i < 4; i++) {
        values[i] = va_arg(arguments, unsigned long);
    }
    va_end(arguments);
    return refusal_hits(&refuse_prctl)
               ? -1
               : REAL(prctl)(what, values[0], values[1], values[2], values[3]);
}

/* A kernel without pidfd_open. */
static struct refusal refuse_syscall;

long
syscall(long number, ...)
{
    va_list arguments;
    long values[6];
    va_start(arguments, number);
    for (size_t i = 0; i < 6; i++) {
        values[i] = va_arg(arguments, long);
    }
    va_end(arguments);
    return number == SYS_pidfd_open && refusal_hits(&refuse_syscall)
               ? -1
               : REAL(syscall)(number, values[0], values[1], values[2],
                               values[3], values[4], values[5]);
}

/* Of messages, not of what wakes a thread. */
static struct refusal refuse_read;
static struct refusal refuse_write;

ssize_t
read(int fd, void *bytes, size_t len)
{
    return len != sizeof(uint64_t) && refusal_hits(&refuse_read)
               ? -1
               : REAL(read)(fd, bytes, len);
}

ssize_t
write(int fd, const void *bytes, size_t len)
{
    return len != sizeof(uint64_t) && refusal_hits(&refuse_write)
               ? -1
               : REAL(write)(fd, bytes, len);
}

static bool
spawn(ro_child *child, const char *script)
{
    char *argv[] = {(char *)(size_t) "/bin/sh", (char *)(size_t) "-c",
                    (char *)(size_t)script, NULL};
    char *envp[] = {NULL};
    return ro_child_spawn(child, argv, envp, NULL);
}

static bool
no_children(void)
{
    return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD;
}

/* All that the child writes, up to its end. */
static size_t
read_all(ro_child *child, char *text, size_t size)
{
    size_t len = 0;
    struct pollfd ready = {.fd = child->out_fd, .events = POLLIN};
    while (poll(&ready, 1, 20000) == 1) {
        ssize_t got = read(child->out_fd, text + len, size - len - 1);
        if (got <= 0) {
            break;
        }
        len += (size_t)got;
    }
    text[len] = '\0';
    return len;
}

/* Ends it; it may be gone. */
static void
end_child(ro_child *child)
{
    ro_child_signal(child, SIGKILL);
    while (!ro_child_reap(child)) {
        (void)poll(NULL, 0, 1);
    }
    ro_child_close(child);
}

/* ---- the start ---- */

/* Whatever fails on the way: its errno, no child, no descriptor. Some of it
 * fails in the child, which has become no program yet. */
static void
test_what_keeps_it_from_starting(void)
{
    static const struct {
        struct refusal *refusal;
        unsigned nth;
        int error;
        int seen;
    } cases[] = {
        {&refuse_pipe2, 1, EMFILE, EMFILE},
        {&refuse_pipe2, 2, EMFILE, EMFILE},
        {&refuse_pipe2, 3, ENFILE, ENFILE},
        {&refuse_fcntl, 1, EINVAL, EINVAL},
        {&refuse_fcntl, 2, EINVAL, EINVAL},
        {&refuse_fcntl, 3, EINVAL, EINVAL},
        {&refuse_fcntl, 4, EINVAL, EINVAL},
        {&refuse_opendir, 1, ENFILE, ENFILE},
        {&refuse_setsid, 1, EPERM, EPERM},
        {&refuse_prctl, 1, EINVAL, EINVAL},
        /* its parent has gone meanwhile, which sets no errno */
        {&refuse_getppid, 1, 0, EAGAIN},
        {&refuse_dup2, 1, EBUSY, EBUSY},
        {&refuse_dup2, 2, EBUSY, EBUSY},
        {&refuse_dup2, 3, EBUSY, EBUSY},
    };
    size_t before = open_descriptors();

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_child child;
        refuse(cases[i].refusal, cases[i].nth, cases[i].error);
        bool started = spawn(&child, "exit 0");
        int error = errno;
        refuse_none(cases[i].refusal);
        CHECK(!started);
        if (error != cases[i].seen) {
            fprintf(stderr, "case %zu: errno %d\n", i, error);
        }
        CHECK(error == cases[i].seen);
        CHECK(child.pid == -1 && child.in_fd == -1 && child.out_fd == -1
              && child.pidfd == -1);
        CHECK(no_children());
        CHECK(open_descriptors() == before);
        CHECK(spawn(&child, "exit 0")); /* and nothing is spoilt */
        end_child(&child);
    }
}

/* A descriptor that is gone before it is looked at is none to close, a signal
 * ends no wait, and a child without a pidfd is one all the same. */
static void
test_what_does_not_keep_it(void)
{
    ro_child child;
    char text[64];

    refuse(&refuse_fcntl, 5, EBADF);
    CHECK(spawn(&child, "echo on"));
    refuse_none(&refuse_fcntl);
    CHECK(read_all(&child, text, sizeof(text)) == 3);
    refuse(&refuse_waitpid, 1, EINTR);
    end_child(&child);
    refuse_none(&refuse_waitpid);
    CHECK(no_children());

    refuse(&refuse_read, 1, EINTR);
    CHECK(spawn(&child, "echo on"));
    refuse_none(&refuse_read);
    CHECK(read_all(&child, text, sizeof(text)) == 3);
    end_child(&child);

    refuse(&refuse_syscall, 1, ENOSYS);
    CHECK(spawn(&child, "echo on"));
    refuse_none(&refuse_syscall);
    CHECK(child.pidfd == -1 && child.pid > 0);
    CHECK(read_all(&child, text, sizeof(text)) == 3);
    end_child(&child);
    CHECK(no_children());

    char *argv[] = {(char *)(size_t) "/nowhere/at/all", NULL};
    refuse(&refuse_waitpid, 1, EINTR);
    CHECK(!ro_child_spawn(&child, argv, argv + 1, NULL) && errno == ENOENT);
    refuse_none(&refuse_waitpid);
    CHECK(no_children());
}

/* A process may have been started with any of its standard streams closed: the
 * pipes then have their numbers. */
static void
test_standard_streams_that_are_closed(void)
{
    for (int closed = 0; closed < 8; closed++) {
        ro_child child;
        char text[64];
        int kept[3];
        for (int fd = 0; fd < 3; fd++) {
            kept[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
        }
        for (int fd = 0; fd < 3; fd++) {
            if ((closed & 1 << fd) != 0) {
                (void)close(fd);
            }
        }
        bool started = spawn(&child, "cat; echo lost >&2; echo end");
        bool sent = started && write(child.in_fd, "0123456789", 10) == 10;
        if (started) {
            (void)close(child.in_fd);
            child.in_fd = -1;
        }
        size_t len = started ? read_all(&child, text, sizeof(text)) : 0;
        end_child(&child);
        for (int fd = 0; fd < 3; fd++) {
            (void)dup2(kept[fd], fd);
            (void)close(kept[fd]);
        }
        CHECK(started && sent);
        CHECK(len == 14 && strcmp(text, "0123456789end\n") == 0);
    }
    CHECK(no_children());
}

/* ---- as a session ---- */

#define ANSWER_ONE "read line && echo '" INITIALIZE_ANSWER "'; "

static void
open_rig(struct rig *rig, const char *script)
{
    char *argv[] = {(char *)(size_t) "/bin/sh", (char *)(size_t) "-c",
                    (char *)(size_t)script, NULL};
    char *envp[] = {NULL};
    ro_session_options options = {
        .server = ro_slice_str("srv"),
        .url = RO_STDIO_URL,
        .proxy = "",
        .cafile = "",
        .capath = "",
    };
    memset(rig, 0, sizeof(*rig));
    snprintf(rig->url, sizeof(rig->url), "%s", RO_STDIO_URL);
    CHECK(rig_open(rig));
    rig->session = ro_mcp_stdio_session(rig->mcp, &options, argv, envp);
    CHECK(rig->session != NULL);
}

/* Until the worker has reaped it. */
static bool
is_reaped(void)
{
    int64_t until = ro_monotonic_ms() + 10000;
    siginfo_t info;
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
        if (ro_monotonic_ms() > until) {
            return false;
        }
        (void)poll(NULL, 0, 2);
    }
    return errno == ECHILD;
}

/* Without a pidfd, or one that cannot be watched, its exit is seen by looks,
 * its end by time, and neither is left out. */
static void
test_a_child_without_a_pidfd(void)
{
    static const struct {
        const char *script;
        bool answers;
    } cases[] = {
        {ANSWER_ONE "read line", true},
        {ANSWER_ONE "trap '' TERM; exec 1>&-; while :; do sleep 9; done",
         true},
        {"exit 3", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int k = 0; k < 2; k++) {
            struct rig rig;
            struct refusal *refusal
                = k == 0 ? &refuse_syscall : &refuse_epoll_ctl;
            /* the third is the pidfd's, behind both pipes */
            refuse(refusal, k == 0 ? 1 : 3, ENOSYS);
            open_rig(&rig, cases[i].script);
            CHECK(rig_ask(&rig, INITIALIZE_BODY, 200,
                          cases[i].answers ? "capabilities" : "\"error\""));
            refuse_none(refusal);
            if (!cases[i].answers) {
                CHECK(rig_noted(&rig) == RO_REASON_EXITED);
            }
            else {
                ro_session_end(rig.session);
            }
            CHECK(is_reaped());
            CHECK(rig_close(&rig));
        }
    }
}

/* Pipes that cannot be watched: no request waits for an answer. */
static void
test_pipes_that_cannot_be_watched(void)
{
    for (unsigned nth = 1; nth <= 2; nth++) {
        struct rig rig;
        refuse(&refuse_epoll_ctl, nth, ENOSPC);
        open_rig(&rig, ANSWER_ONE "read line");
        CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "\"error\""));
        refuse_none(&refuse_epoll_ctl);
        CHECK(rig_noted(&rig) == RO_REASON_INTERNAL);
        CHECK(is_reaped());
        CHECK(rig_close(&rig));
    }
}

/* A message that is not written yet is written, one that cannot be is an
 * error as soon as there was time for an answer. */
static void
test_a_write_that_fails(void)
{
    static const struct {
        int error;
        bool answers;
    } cases[] = {{EINTR, true}, {EAGAIN, true}, {EPIPE, false}, {EIO, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig;
        open_rig(&rig, ANSWER_ONE "read line");
        refuse(&refuse_write, 1, cases[i].error);
        CHECK(rig_ask(&rig, INITIALIZE_BODY, 200,
                      cases[i].answers ? "capabilities" : "\"error\""));
        refuse_none(&refuse_write);
        ro_reason note = rig_noted(&rig);
        CHECK(cases[i].answers ? note == RO_REASON_NONE
                               : note == RO_REASON_EXITED
                                     || note == RO_REASON_CLOSED_INPUT);
        CHECK(rig_close(&rig));
    }
    CHECK(no_children());
}

/* A read that fails is the end of what it says, an interrupted one is not. */
static void
test_a_read_that_fails(void)
{
    static const struct {
        int error;
        bool answers;
    } cases[] = {{EINTR, true}, {EAGAIN, true}, {EIO, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig;
        open_rig(&rig, ANSWER_ONE "read line");
        refuse(&refuse_read, 1, cases[i].error); /* it has said nothing yet */
        CHECK(rig_ask(&rig, INITIALIZE_BODY, 200,
                      cases[i].answers ? "capabilities" : "\"error\""));
        refuse_none(&refuse_read);
        CHECK(rig_noted(&rig)
              == (cases[i].answers ? RO_REASON_NONE : RO_REASON_EXITED));
        CHECK(rig_close(&rig));
    }
    CHECK(no_children());
}

int
main(void)
{
    signal(SIGPIPE, SIG_IGN);
    test_what_keeps_it_from_starting();
    test_what_does_not_keep_it();
    test_standard_streams_that_are_closed();
    test_a_child_without_a_pidfd();
    test_pipes_that_cannot_be_watched();
    test_a_write_that_fails();
    test_a_read_that_fails();
    return check_end();
}
