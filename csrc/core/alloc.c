#include "core/alloc.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef RO_TEST_ALLOC

#include <stdatomic.h>

/* Test builds only. */
static atomic_size_t test_tried;
static atomic_size_t test_live;
static atomic_size_t test_fail_at;
static atomic_bool test_sticky;

void
ro_alloc_fail_at(size_t nth, int sticky)
{
    atomic_store(&test_fail_at, 0);
    atomic_store(&test_tried, 0);
    atomic_store(&test_sticky, sticky != 0);
    atomic_store(&test_fail_at, nth);
}

size_t
ro_alloc_count(void)
{
    return atomic_load(&test_tried);
}

size_t
ro_alloc_live(void)
{
    return atomic_load(&test_live);
}

static bool
allowed(void)
{
    size_t nth = atomic_fetch_add(&test_tried, 1) + 1;
    size_t fail = atomic_load(&test_fail_at);
    return fail == 0 || nth < fail
           || (nth > fail && !atomic_load(&test_sticky));
}

static void *
counted(void *block)
{
    if (block != NULL) {
        atomic_fetch_add(&test_live, 1);
    }
    return block;
}

static void
uncount(void)
{
    atomic_fetch_sub(&test_live, 1);
}

#else

static inline bool
allowed(void)
{
    return true;
}

static inline void *
counted(void *block)
{
    return block;
}

static inline void
uncount(void)
{
}

#endif

/* A size of 0 still gives a block, so NULL always means out of memory. */

void *
ro_malloc(size_t size)
{
    return allowed() ? counted(malloc(size ? size : 1)) : NULL;
}

void *
ro_calloc(size_t count, size_t size)
{
    if (count == 0 || size == 0) {
        count = size = 1;
    }
    return allowed() ? counted(calloc(count, size)) : NULL;
}

void *
ro_realloc(void *block, size_t size)
{
    if (block == NULL) {
        return ro_malloc(size);
    }
    return allowed() ? realloc(block, size ? size : 1) : NULL;
}

void
ro_free(void *block)
{
    if (block != NULL) {
        uncount();
        free(block);
    }
}

char *
ro_memdup(const char *bytes, size_t len)
{
    char *copy = len < SIZE_MAX ? ro_malloc(len + 1) : NULL;
    if (copy == NULL) {
        return NULL;
    }
    if (len > 0) {
        memcpy(copy, bytes, len);
    }
    copy[len] = '\0';
    return copy;
}
