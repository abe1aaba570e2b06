/* A test program's own counting and reporting; see any test_*.c. */
#ifndef RO_TEST_CHECK_H
#define RO_TEST_CHECK_H

#include <stdio.h>
#include <stdlib.h>

static unsigned check_count;
static unsigned check_failed;

/* Who only asks whether a program fails does not wait for the rest of it. */
static inline void
check_one_failed(void)
{
    if (getenv("RO_TEST_FIRST") != NULL) {
        _Exit(EXIT_FAILURE);
    }
}

#define CHECK(condition)                                                      \
    do {                                                                      \
        check_count++;                                                        \
        if (!(condition)) {                                                   \
            check_failed++;                                                   \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__,        \
                    #condition);                                              \
            check_one_failed();                                               \
        }                                                                     \
    } while (0)

static inline int
check_end(void)
{
    if (check_failed) {
        printf("FAILED %u of %u checks\n", check_failed, check_count);
        return EXIT_FAILURE;
    }
    printf("ok %u checks\n", check_count);
    return EXIT_SUCCESS;
}

#endif
