/* Threads of ours, what they wait by and what wakes them, when the system
 * refuses. */
#undef _FORTIFY_SOURCE /* a checked read would not be the one below */
#include "refusing.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

#include "check.h"
#include "core/alloc.h"
#include "core/monotonic.h"
#include "core/thread.h"
#include "core/wake.h"

REFUSABLE(int, pthread_attr_init, (pthread_attr_t * attributes), errno,
          attributes)
REFUSABLE(int, pthread_attr_setstacksize,
          (pthread_attr_t * attributes, size_t size), errno, attributes, size)
REFUSABLE(int, pthread_create,
          (pthread_t * thread, const pthread_attr_t *attributes,
           void *(*run)(void *), void *ctx),
          errno, thread, attributes, run, ctx)
REFUSABLE(int, pthread_sigmask,
          (int how, const sigset_t *set, sigset_t *before), errno, how, set,
          before)
REFUSABLE(int, sigaltstack, (const stack_t *stack, stack_t *before), -1, stack,
          before)
REFUSABLE(int, pthread_condattr_init, (pthread_condattr_t * attributes), errno,
          attributes)
REFUSABLE(int, pthread_condattr_setclock,
          (pthread_condattr_t * attributes, clockid_t clock), errno,
          attributes, clock)
REFUSABLE(ssize_t, read, (int fd, void *bytes, size_t len), -1, fd, bytes, len)
REFUSABLE(ssize_t, write, (int fd, const void *bytes, size_t len), -1, fd,
          bytes, len)

struct said {
    bool ran;
    bool deaf;  /* SIGTERM is blocked */
    bool hears; /* SIGSEGV is not */
};

static void *
say(void *ctx)
{
    struct said *said = ctx;
    sigset_t set;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &set);
    said->ran = true;
    said->deaf = sigismember(&set, SIGTERM) == 1;
    said->hears = sigismember(&set, SIGSEGV) == 0;
    return NULL;
}

static int
run(struct said *said)
{
    pthread_t thread;
    *said = (struct said){0};
    int failed = ro_thread_start(&thread, 65536, say, said);
    if (failed == 0) {
        (void)pthread_join(thread, NULL);
    }
    return failed;
}

/* Why it did not start, nothing is left behind, and the maker's own mask is as
 * it was. */
static void
test_a_thread_that_does_not_start(void)
{
    static struct refusal *const refusals[]
        = {&refuse_pthread_attr_init, &refuse_pthread_attr_setstacksize,
           &refuse_pthread_create, &refuse_pthread_sigmask};
    struct said said;
    sigset_t set;

    for (size_t i = 0; i < 4; i++) {
        refuse(refusals[i], 1, EAGAIN);
        CHECK(run(&said) == EAGAIN);
        refuse_none(refusals[i]);
        CHECK(!said.ran && ro_alloc_live() == 0);
        CHECK(pthread_sigmask(SIG_SETMASK, NULL, &set) == 0);
        CHECK(sigismember(&set, SIGTERM) == 0);
        CHECK(run(&said) == 0);
        CHECK(said.ran && said.deaf && said.hears);
    }
    ro_alloc_fail_at(1, 0);
    CHECK(run(&said) == ENOMEM && !said.ran);
    ro_alloc_fail_at(0, 0);
    /* a thread without a second stack runs all the same */
    refuse(&refuse_sigaltstack, 1, ENOMEM);
    CHECK(run(&said) == 0 && said.ran);
    CHECK(atomic_load(&refuse_sigaltstack.calls) == 1);
    refuse_none(&refuse_sigaltstack);
    CHECK(run(&said) == 0 && said.ran);
    CHECK(atomic_load(&refuse_sigaltstack.calls) == 2); /* and gives it back */
    CHECK(ro_alloc_live() == 0);
}

static void
test_a_condition_that_cannot_be_made(void)
{
    pthread_cond_t condition;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    refuse(&refuse_pthread_condattr_init, 1, ENOMEM);
    CHECK(ro_cond_init(&condition) == ENOMEM);
    refuse_none(&refuse_pthread_condattr_init);
    refuse(&refuse_pthread_condattr_setclock, 1, EINVAL);
    CHECK(ro_cond_init(&condition) == EINVAL);
    refuse_none(&refuse_pthread_condattr_setclock);
    CHECK(ro_cond_init(&condition) == 0);
    (void)pthread_mutex_lock(&lock);
    CHECK(!ro_cond_wait_until(&condition, &lock, ro_monotonic_ms() - 1));
    (void)pthread_mutex_unlock(&lock);
    (void)pthread_cond_destroy(&condition);
}

static bool
is_awake(int fd)
{
    struct pollfd state = {.fd = fd, .events = POLLIN};
    return poll(&state, 1, 0) == 1;
}

/* A signal in between changes nothing; what cannot be said is not said for
 * ever. */
static void
test_waking(void)
{
    int fd = ro_wake_new();
    CHECK(fd >= 0 && !is_awake(fd));
    ro_wake_lower(fd);
    CHECK(!is_awake(fd));
    refuse(&refuse_write, 1, EINTR);
    ro_wake_raise(fd);
    CHECK(is_awake(fd) && atomic_load(&refuse_write.calls) == 2);
    refuse(&refuse_read, 1, EINTR);
    ro_wake_lower(fd);
    CHECK(!is_awake(fd) && atomic_load(&refuse_read.calls) == 2);
    refuse(&refuse_write, 1, EAGAIN);
    ro_wake_raise(fd);
    CHECK(!is_awake(fd) && atomic_load(&refuse_write.calls) == 1);
    ro_wake_raise(fd);
    ro_wake_raise(fd);
    CHECK(is_awake(fd));
    refuse_none(&refuse_read);
    ro_wake_lower(fd);
    CHECK(!is_awake(fd));
    (void)close(fd);
}

int
main(void)
{
    test_a_thread_that_does_not_start();
    test_a_condition_that_cannot_be_made();
    test_waking();
    return check_end();
}
