/* The one way to the heap below py/.
 *
 * A test build (-DRO_TEST_ALLOC) counts calls and can fail the Nth, so that
 * every failure path runs. Thread safe. ro_free(NULL) is fine.
 */
#ifndef RO_CORE_ALLOC_H
#define RO_CORE_ALLOC_H

#include <stddef.h>

void *ro_malloc(size_t size);
void *ro_calloc(size_t count, size_t size);
/* On failure returns NULL and the old block stays valid. */
void *ro_realloc(void *block, size_t size);
void ro_free(void *block);
/* A copy of len bytes with a NUL behind them; NULL when out of memory. */
char *ro_memdup(const char *bytes, size_t len);

#ifdef RO_TEST_ALLOC
/* Fail the Nth allocation from now on (1 is the next) and all behind it
 * when sticky is set; 0 switches failing off. Resets the counter. */
void ro_alloc_fail_at(size_t nth, int sticky);
/* Allocations tried since the last ro_alloc_fail_at. */
size_t ro_alloc_count(void);
/* Blocks that are allocated and not freed. */
size_t ro_alloc_live(void);
#endif

#endif
