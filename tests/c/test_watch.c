/* Descriptors that the worker watches for others. */
#include <fcntl.h>
#include <semaphore.h>
#include <sys/epoll.h>

#include "net/watch.h"
#include "net_rig.h"

struct place {
    ro_net *net;
    ro_watch watch;
    int ends[2];
    unsigned ask; /* events to watch for */
    bool watched;
    struct place *rival; /* unwatched by the first call */
    atomic_uint calls;
    atomic_uint events; /* of the last call */
    sem_t called;
    sem_t ran;
};

static void
await(sem_t *what)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5;
    CHECK(sem_timedwait(what, &until) == 0);
}

/* Takes one byte if there is any. */
static void
on_ready(void *ctx, unsigned events)
{
    struct place *place = ctx;
    char byte;
    if ((events & EPOLLIN) != 0) {
        (void)!read(place->ends[0], &byte, 1);
    }
    else {
        ro_net_unwatch(place->net, &place->watch);
    }
    if (place->rival != NULL) {
        ro_net_unwatch(place->net, &place->rival->watch);
    }
    atomic_store(&place->events, events);
    atomic_fetch_add(&place->calls, 1);
    sem_post(&place->called);
}

/* end: 0 watches for reading, 1 for writing. */
static void
place_open(struct place *place, ro_net *net, int end, unsigned ask)
{
    memset(place, 0, sizeof(*place));
    CHECK(pipe2(place->ends, O_CLOEXEC | O_NONBLOCK) == 0);
    place->net = net;
    place->watch = (ro_watch){on_ready, place, place->ends[end], false};
    place->ask = ask;
    sem_init(&place->called, 0, 0);
    sem_init(&place->ran, 0, 0);
}

static void
place_close(struct place *place)
{
    for (int end = 0; end < 2; end++) {
        if (place->ends[end] >= 0) {
            close(place->ends[end]);
        }
    }
    sem_destroy(&place->called);
    sem_destroy(&place->ran);
}

static void
run(struct place *place, void (*fn)(void *ctx))
{
    CHECK(ro_net_run(place->net, fn, place) == RO_NET_OK);
    await(&place->ran);
}

static void
watch_now(void *ctx)
{
    struct place *place = ctx;
    place->watched = ro_net_watch(place->net, &place->watch, place->ask);
    sem_post(&place->ran);
}

static void
unwatch_now(void *ctx)
{
    struct place *place = ctx;
    ro_net_unwatch(place->net, &place->watch);
    ro_net_unwatch(place->net, &place->watch);
    sem_post(&place->ran);
}

static void
say(struct place *place)
{
    CHECK(write(place->ends[1], "x", 1) == 1);
}

/* Both in one turn of the worker. */
static void
say_both(void *ctx)
{
    struct place *place = ctx;
    (void)!write(place->ends[1], "x", 1);
    (void)!write(place->rival->ends[1], "x", 1);
    sem_post(&place->ran);
}

static void
test_calls_as_long_as_it_is_watched(void)
{
    ro_net *net = ro_net_new();
    struct place one;
    struct place other;
    place_open(&one, net, 0, EPOLLIN);
    place_open(&other, net, 0, EPOLLIN);
    run(&one, watch_now);
    run(&other, watch_now);
    CHECK(one.watched && other.watched);
    for (unsigned i = 1; i <= 3; i++) {
        say(&one);
        await(&one.called);
        CHECK(atomic_load(&one.calls) == i);
        CHECK(atomic_load(&one.events) == EPOLLIN);
    }
    CHECK(atomic_load(&other.calls) == 0);
    run(&one, unwatch_now);
    say(&one);
    say(&other);
    say(&other);
    await(&other.called);
    await(&other.called);
    CHECK(atomic_load(&one.calls) == 3);
    net_end(net); /* forgets the other one */
    place_close(&one);
    place_close(&other);
}

static void
test_a_call_may_end_the_other_watch(void)
{
    ro_net *net = ro_net_new();
    struct place one;
    struct place other;
    struct place last;
    place_open(&one, net, 0, EPOLLIN);
    place_open(&other, net, 0, EPOLLIN);
    place_open(&last, net, 0, EPOLLIN);
    one.rival = &other;
    other.rival = &one;
    run(&one, watch_now);
    run(&other, watch_now);
    run(&last, watch_now);
    run(&one, say_both);
    say(&last);
    say(&last);
    await(&last.called);
    await(&last.called);
    CHECK(atomic_load(&one.calls) + atomic_load(&other.calls) == 1);
    net_end(net);
    place_close(&one);
    place_close(&other);
    place_close(&last);
}

static void
test_room_and_errors(void)
{
    static const char filling[4096];
    ro_net *net = ro_net_new();
    struct place place;
    char room[65536];
    place_open(&place, net, 1, EPOLLOUT);
    while (write(place.ends[1], filling, sizeof(filling)) > 0) {
    }
    run(&place, watch_now);
    CHECK(atomic_load(&place.calls) == 0);
    while (read(place.ends[0], room, sizeof(room)) > 0) {
    }
    await(&place.called); /* and it unwatches */
    CHECK(atomic_load(&place.events) == EPOLLOUT);
    place.ask = 0;
    run(&place, watch_now);
    CHECK(place.watched && atomic_load(&place.calls) == 1);
    close(place.ends[0]);
    place.ends[0] = -1;
    await(&place.called);
    CHECK((atomic_load(&place.events) & EPOLLERR) != 0);
    net_end(net);
    place_close(&place);
}

static void
test_what_cannot_be_watched(void)
{
    ro_net *net = ro_net_new();
    struct place place;
    place_open(&place, net, 0, EPOLLIN);
    place.watch.fd = -1;
    run(&place, watch_now);
    CHECK(!place.watched && !place.watch.set);
    run(&place, unwatch_now);
    place.watch.fd = place.ends[0];
    run(&place, watch_now);
    CHECK(place.watched);
    net_end(net);
    place_close(&place);
}

int
main(void)
{
    test_calls_as_long_as_it_is_watched();
    test_a_call_may_end_the_other_watch();
    test_room_and_errors();
    test_what_cannot_be_watched();
    return check_end();
}
