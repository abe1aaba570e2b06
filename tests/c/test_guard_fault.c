/* Each system call that sys.h lists fails in turn, and each allocation:
 * start is refused and undone, or one envelope comes out. */
#include "check.h"
#include "entries.h"
#include "guarded.h"

#include "core/alloc.h"
#include "guard/sys.h"

#define REFUSED "refused\n"
#define LONG_ENOUGH 9000 /* bytes: more than one write */

static guarded result;
static char document[LONG_ENOUGH];

static ro_sys fault_call;
static size_t fault_nth;
static int fault_errno;
static bool fault_sticky;
static size_t alloc_nth;
static bool alloc_sticky;
static bool wait_for_end;
static unsigned refusals;
static unsigned cripples;

_Noreturn static void
hang(void)
{
    for (;;) {
        (void)pause();
    }
}

/* A child and one that escaped to the sub-reaper. */
static void
start_family(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        guarded_let_go();
        (void)setsid();
        if (fork() == 0) {
            hang();
        }
        _exit(0);
    }
    if (pid < 0) {
        _exit(97);
    }
    ro_clock_sleep(5);
    if (fork() == 0) {
        guarded_let_go();
        hang();
    }
    ro_clock_sleep(5); /* until they have let go */
}

/* The exit code is what the guard lives without. */
static void
body(void)
{
    /* where the end is not waited for, it comes to what hangs alone, and
     * not to what a sanitizer on a busy machine makes slow */
    ro_guard_options options = guarded_options(wait_for_end ? 250 : 1500, 150);
    ro_guard_code why = RO_GUARD_OK;
    (void)close(0);
    if (open("/proc/self/stat", O_RDONLY) != 0) {
        _exit(97);
    }
    size_t before = open_descriptors();
    ro_fault_set(fault_call, fault_nth, fault_errno, fault_sticky);
    if (alloc_nth > 0) {
        ro_alloc_fail_at(alloc_nth, alloc_sticky);
    }
    ro_guard *guard = ro_guard_start(&options, &why);
    if (guard == NULL) {
        ro_fault_set(RO_SYS_COUNT, 0, 0, false);
        ro_alloc_fail_at(0, 0);
        bool undone = why != RO_GUARD_OK && why != RO_GUARD_TWICE
                      && open_descriptors() == before && ro_alloc_live() == 0
                      && signal(SIGTERM, SIG_DFL) == SIG_DFL;
        ro_guard_finish(NULL, undone ? 64 : 65, ro_slice_str(REFUSED));
    }
    start_family();
    if (wait_for_end) {
        hang();
    }
    ro_buf input;
    ro_buf_init(&input, 4096);
    ro_guard_input code = ro_guard_read_stdin(guard, 4096, &input);
    if (code != RO_INPUT_OK && input.len != 0) {
        _exit(96);
    }
    ro_guard_finish(guard, (int)ro_guard_degraded(guard),
                    ro_slice_of(document, sizeof(document)));
}

static bool
is_prefix(const char *text, size_t len)
{
    return result.len <= len && memcmp(result.out, text, result.len) == 0;
}

static void
complain(void)
{
    fprintf(stderr,
            "call %d, the %zu., errno %d%s; allocation %zu%s%s: exit %d, "
            "%zu bytes, %d left, %ld ms\n",
            (int)fault_call, fault_nth, fault_errno,
            fault_sticky ? " and on" : "", alloc_nth,
            alloc_sticky ? " and on" : "", wait_for_end ? ", at the end" : "",
            result.exit_code, result.len, result.left, (long)result.ms);
}

/* Orphans and more may stay behind where the guard said so, or where no
 * signal gets through at all. */
static bool
may_leave(int degraded)
{
    return fault_sticky
           || (degraded & (RO_GUARD_NO_PROC | RO_GUARD_NO_REAPER)) != 0;
}

/* A fault that the timeout envelope comes out in spite of. */
static bool
is_written(void)
{
    return !fault_sticky && fault_call != RO_SYS_WRITE
           && fault_call != RO_SYS_CLOSE;
}

/* On a machine that is busy the time for the last write may pass before the
 * finisher gets to it; one that does so again and again is no excuse. */
static void
run_body(void)
{
    guarded_setup setup = {.body = body};
    int tries = 0;
    do {
        guarded_run(&setup, &result);
    } while (++tries < 5 && wait_for_end && is_written()
             && result.exit_code == 1 && result.len == 0);
}

static void
run(void)
{
    run_body();
    bool good;
    if (result.exit_code == 64) {
        refusals++;
        good = guarded_wrote(&result, REFUSED) && result.left == 0;
    }
    else if (wait_for_end) {
        size_t len = strlen(TIMEOUT_ENVELOPE);
        good = result.exit_code == 1 && is_prefix(TIMEOUT_ENVELOPE, len)
               && (!is_written() || result.len == len);
    }
    else {
        good = result.exit_code == 1
                   ? is_prefix(document, sizeof(document))
                   : result.exit_code >= 0 && result.exit_code < 32
                         && result.len == sizeof(document)
                         && is_prefix(document, sizeof(document));
        cripples += result.exit_code > 1;
        if (result.left != 0) {
            good = good && may_leave(result.exit_code);
        }
    }
    good = good && result.ms < GUARDED_LATE_MS;
    CHECK(good);
    if (!good) {
        complain();
    }
}

static const struct {
    ro_sys call;
    int errors[3];
    size_t most; /* calls that are worth failing */
} plan[] = {
    {RO_SYS_FCNTL, {EMFILE, EINVAL}, 6},
    {RO_SYS_OPEN, {EMFILE, EINTR, ENOENT}, 4},
    {RO_SYS_OPENAT, {EMFILE, EINTR, ENOMEM}, 64},
    {RO_SYS_READLINKAT, {ENOENT, ENOMEM}, 1},
    {RO_SYS_DUP2, {EINTR, EBUSY, EIO}, 2},
    {RO_SYS_EVENTFD, {EMFILE, ENOMEM}, 4},
    {RO_SYS_SIGACTION, {EINVAL}, 95},
    {RO_SYS_PTHREAD_CREATE, {EAGAIN}, 2},
    {RO_SYS_READ, {EINTR, EIO, EAGAIN}, 64},
    {RO_SYS_WRITE, {EINTR, EAGAIN, ENOSPC}, 8},
    {RO_SYS_CLOSE, {EIO, EINTR}, 1},
    {RO_SYS_POLL, {EINTR, ENOMEM}, 8},
    {RO_SYS_GETDENTS64, {EINTR, EIO, ENOMEM}, 64},
    {RO_SYS_LSEEK, {EIO}, 4},
    {RO_SYS_PRCTL, {EINVAL}, 2},
    {RO_SYS_CLOCK_BOOTTIME, {EINVAL}, 2},
    {RO_SYS_PIDFD_OPEN, {ENOSYS, EMFILE, EPERM}, 8},
    {RO_SYS_PIDFD_SEND_SIGNAL, {ENOSYS, EPERM}, 8},
    {RO_SYS_KILL, {EPERM}, 8},
    {RO_SYS_WAITID, {EINTR, EINVAL}, 8},
    {RO_SYS_WAITPID, {EINTR}, 8},
};

static size_t
next_nth(size_t nth)
{
    return nth < 4 ? nth + 1 : nth * 2;
}

static void
fail_each_call(size_t at)
{
    fault_call = plan[at].call;
    fault_sticky = false;
    for (size_t i = 0; i < 3 && plan[at].errors[i] != 0; i++) {
        fault_errno = plan[at].errors[i];
        for (fault_nth = 1; fault_nth <= plan[at].most;
             fault_nth = next_nth(fault_nth)) {
            run();
        }
    }
}

/* An EINTR for ever is no error but a hang of the kernel's. */
static void
fail_for_ever(size_t at)
{
    fault_call = plan[at].call;
    fault_sticky = true;
    fault_errno = plan[at].errors[0] == EINTR ? EIO : plan[at].errors[0];
    for (fault_nth = 1; fault_nth <= plan[at].most; fault_nth *= 8) {
        run();
    }
}

static void
fail_allocations(void)
{
    fault_call = RO_SYS_COUNT;
    fault_nth = 0;
    fault_sticky = false;
    for (alloc_nth = 1; alloc_nth <= 11; alloc_nth++) {
        alloc_sticky = false;
        run();
        alloc_sticky = true;
        run();
    }
    alloc_nth = 0;
}

int
main(void)
{
    memset(document, 'd', sizeof(document));
    CHECK(sizeof(plan) / sizeof(plan[0]) == RO_SYS_COUNT);
    fault_call = RO_SYS_COUNT;
    run();
    CHECK(result.exit_code == 0 && result.left == 0);
    for (size_t i = 0; i < sizeof(plan) / sizeof(plan[0]); i++) {
        fail_each_call(i);
        fail_for_ever(i);
    }
    fail_allocations();
    wait_for_end = true;
    for (size_t i = 0; i < sizeof(plan) / sizeof(plan[0]); i++) {
        fault_call = plan[i].call;
        fault_errno = plan[i].errors[0];
        fault_nth = 1;
        fault_sticky = false;
        run();
    }
    /* the faults did arrive */
    CHECK(refusals >= 40);
    CHECK(cripples >= 6);
    return check_end();
}
