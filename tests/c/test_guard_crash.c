/* Crashes: whichever thread it is, one envelope, nothing left, its signal. */
#include "check.h"
#include "guarded.h"

#include <dirent.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "core/thread.h"
#include "guard/state.h"

#define ANSWER "{\"ok\":true}\n"
#define LARGE 20000

static guarded result;
static ro_guard *guard;

_Noreturn static void
hang(void)
{
    for (;;) {
        (void)pause();
    }
}

/* A child, and one that escaped to the sub-reaper. */
static void
start_family(void)
{
    for (int i = 0; i < 2; i++) {
        if (fork() == 0) {
            guarded_let_go();
            (void)setsid();
            if (i == 1 && fork() > 0) {
                _exit(0);
            }
            hang();
        }
    }
}

/* ---- ways to crash ---- */

static int signal_to_raise;

static void
raise_it(void)
{
    (void)raise(signal_to_raise);
}

static void
read_nowhere(void)
{
    volatile char *page
        = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)*page;
}

/* Through a pointer, so that no compiler makes a loop of it. */
static void (*volatile deeper)(volatile char *);

static void
overflow(volatile char *caller)
{
    volatile char frame[4096];
    frame[0] = *caller;
    deeper(frame);
    frame[1] = frame[0]; /* not the last call */
}

static void
use_up_the_stack(void)
{
    volatile char first = 0;
    deeper = overflow;
    deeper(&first);
}

static void
call_abort(void)
{
    abort();
}

/* ---- threads that crash ---- */

static void (*way)(void);

static void
body_main(void)
{
    sigset_t all;
    (void)sigfillset(&all); /* a launcher's: they are lifted */
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)signal(SIGABRT, SIG_IGN);
    guard = guarded_start(0, 0);
    start_family();
    way();
    hang();
}

static void *
crash_here(void *unused)
{
    (void)unused;
    way();
    return NULL;
}

static void
body_thread(void)
{
    pthread_t thread;
    guard = guarded_start(0, 0);
    start_family();
    if (ro_thread_start(&thread, 256 * 1024, crash_here, NULL) != 0) {
        _exit(97);
    }
    hang();
}

static void
expect_failed(int number, const char *what)
{
    bool good = result.signal == number && result.left == 0
                && guarded_wrote(&result, FAILED_ENVELOPE);
    if (!good) {
        fprintf(stderr, "%s: signal %d, exit %d, left %d, %.*s\n", what,
                result.signal, result.exit_code, result.left, (int)result.len,
                result.out);
    }
    CHECK(good);
    CHECK(result.ms < GUARDED_LATE_MS);
}

#define RUN(...)                                                              \
    do {                                                                      \
        guarded_setup setup_ = {__VA_ARGS__};                                 \
        guarded_run(&setup_, &result);                                        \
    } while (0)

static void
test_each_way(void)
{
    static const struct {
        const char *name;
        void (*way)(void);
        int number;
    } ways[] = {
        {"a bad address", read_nowhere, SIGSEGV},
        {"a stack that is used up", use_up_the_stack, SIGSEGV},
        {"abort", call_abort, SIGABRT},
    };
    way = raise_it;
    for (int i = 0; i < RO_CRASH_SIGNALS; i++) {
        signal_to_raise = ro_crash_signals[i];
        RUN(.body = body_main);
        expect_failed(signal_to_raise, "raised");
    }
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        way = ways[i].way;
        RUN(.body = body_main);
        expect_failed(ways[i].number, ways[i].name);
        RUN(.body = body_thread);
        expect_failed(ways[i].number, ways[i].name);
    }
}

/* ---- the guard's own threads ---- */

static int thread_to_hit; /* of the guard's two */

/* Blocks what interrupts, but not a crash: a sanitizer's own blocks both. */
static bool
is_ours(int id)
{
    char path[64];
    char line[256];
    unsigned long blocked = 0;
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/status", id);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "SigBlk:", 7) == 0) {
            blocked = strtoul(line + 7, NULL, 16);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return (blocked >> (SIGTERM - 1) & 1) == 1
           && (blocked >> (SIGSEGV - 1) & 1) == 0;
}

static int
find_ours(int ids[2])
{
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    while (tasks != NULL && found < 2 && (entry = readdir(tasks)) != NULL) {
        int id = (int)strtol(entry->d_name, NULL, 10);
        if (id > 0 && is_ours(id)) {
            ids[found++] = id;
        }
    }
    (void)closedir(tasks);
    return found;
}

static void
body_own_thread(void)
{
    int ids[2];
    guard = guarded_start(0, 0);
    start_family();
    /* until both are past the C library's own start, which blocks all */
    while (find_ours(ids) != 2) {
        ro_clock_sleep(1);
    }
    (void)syscall(SYS_tgkill, getpid(), ids[thread_to_hit], SIGSEGV);
    hang();
}

static void
crashing_hook(void *unused, int wait_ms)
{
    (void)unused;
    (void)wait_ms;
    read_nowhere();
}

static void
body_hook(void)
{
    guard = guarded_start(0, 0);
    start_family();
    ro_guard_set_exit_hook(guard, crashing_hook, NULL);
    ro_guard_finish(guard, 0, ro_slice_str(ANSWER));
}

static void
test_the_guards_own_threads(void)
{
    for (thread_to_hit = 0; thread_to_hit < 2; thread_to_hit++) {
        RUN(.body = body_own_thread);
        expect_failed(SIGSEGV, "a thread of the guard");
    }
    RUN(.body = body_hook);
    CHECK(result.signal == SIGSEGV && result.left == 0);
    CHECK(guarded_wrote(&result, ANSWER));
}

/* ---- what else is going on ---- */

static void
body_holding_the_lock(void)
{
    guard = guarded_start(0, 0);
    start_family();
    pthread_mutex_lock(&guard->lock);
    (void)raise(SIGBUS);
}

/* Nobody reads, and there is no room. */
static void
body_into_a_full_pipe(void)
{
    static const char filler[1];
    (void)fcntl(1, F_SETFL, O_NONBLOCK);
    while (write(1, filler, sizeof(filler)) > 0) {
    }
    guard = guarded_start(0, 0);
    start_family();
    (void)raise(SIGILL);
}

static char documents[6][LARGE];

static void *
finish_or_crash(void *arg)
{
    const char *document = arg;
    if (document[0] % 2 == 0) {
        (void)raise(document[0] % 4 == 0 ? SIGSEGV : SIGBUS);
    }
    ro_guard_finish(guard, 0, ro_slice_of(document, LARGE));
}

static void
body_race(void)
{
    guard = guarded_start(0, 0);
    for (int i = 0; i < 6; i++) {
        pthread_t thread;
        memset(documents[i], 'a' + i, LARGE);
        if (ro_thread_start(&thread, 0, finish_or_crash, documents[i]) != 0) {
            _exit(97);
        }
    }
    hang();
}

static void
test_a_crash_among_others(void)
{
    RUN(.body = body_holding_the_lock);
    expect_failed(SIGBUS, "with the lock");
    RUN(.body = body_into_a_full_pipe, .deaf = true);
    CHECK(result.signal == SIGILL && result.left == 0);
    CHECK(memchr(result.out, '{', result.len) == NULL);
    CHECK(result.ms < GUARDED_LATE_MS);
    for (int round = 0; round < 10; round++) {
        RUN(.body = body_race);
        CHECK(result.signal == SIGSEGV || result.signal == SIGBUS
              || result.exit_code == 0);
        bool one = guarded_wrote(&result, FAILED_ENVELOPE);
        if (!one && result.len == LARGE) {
            one = memcmp(result.out, result.out + 1, LARGE - 1) == 0;
        }
        CHECK(one);
        CHECK(result.left == 0);
    }
}

/* Somebody else's handlers are back when the start is refused. */
static void
other_handler(int number)
{
    (void)number;
}

static void
body_refused(void)
{
    struct rlimit none = {0, 0};
    stack_t stack;
    struct sigaction action = {.sa_handler = other_handler};
    ro_guard_options options = guarded_options(0, 0);
    (void)sigaction(SIGSEGV, &action, NULL);
    (void)setrlimit(RLIMIT_NOFILE, &none);
    bool good = ro_guard_start(&options, NULL) == NULL
                && sigaction(SIGSEGV, NULL, &action) == 0
                && action.sa_handler == other_handler
                && sigaltstack(NULL, &stack) == 0
                && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1;
    _exit(good ? 0 : 1);
}

static void
test_undone(void)
{
    RUN(.body = body_refused);
    CHECK(result.exit_code == 0);
}

int
main(void)
{
    test_each_way();
    test_the_guards_own_threads();
    test_a_crash_among_others();
    test_undone();
    return check_end();
}
