/* Functions of the system and of libcurl that a test makes refuse.
 *
 * A program that names one with REFUSABLE has it in place of the library's,
 * for the sources that it is linked with; a library goes on calling its own.
 */
#ifndef RO_TEST_REFUSING_H
#define RO_TEST_REFUSING_H

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct refusal {
    atomic_uint calls; /* since the last refuse() */
    atomic_uint nth;   /* 0: none is refused */
    atomic_bool all;   /* those behind it too */
    atomic_int error;
};

/* Refuse the nth call from now on (1 is the next; 0: none) with that errno, or
 * with what else the function returns. */
static inline void
refuse(struct refusal *refusal, unsigned nth, int error)
{
    atomic_store(&refusal->nth, 0);
    atomic_store(&refusal->calls, 0);
    atomic_store(&refusal->all, false);
    atomic_store(&refusal->error, error);
    atomic_store(&refusal->nth, nth);
}

static inline void
refuse_all(struct refusal *refusal, int error)
{
    refuse(refusal, 0, error);
    atomic_store(&refusal->all, true);
    atomic_store(&refusal->nth, 1);
}

static inline void
refuse_none(struct refusal *refusal)
{
    refuse(refusal, 0, 0);
}

static inline bool
refusal_hits(struct refusal *refusal)
{
    unsigned call = atomic_fetch_add(&refusal->calls, 1) + 1;
    unsigned nth = atomic_load(&refusal->nth);
    bool hits = nth != 0
                && (call == nth || (call > nth && atomic_load(&refusal->all)));
    if (hits) {
        errno = atomic_load(&refusal->error);
    }
    return hits;
}

/* The library's own function of that name, as a pointer like mine. */
#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* Defines name and its refuse_name; refused is what a refusal returns, which
 * may use errno. The last arguments are the names of the parameters. */
#define REFUSABLE(type, name, parameters, refused, ...)                       \
    static struct refusal refuse_##name;                                      \
    type name parameters                                                      \
    {                                                                         \
        return refusal_hits(&refuse_##name) ? (refused)                       \
                                            : REAL(name)(__VA_ARGS__);        \
    }

#endif
