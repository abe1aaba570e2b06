/* What the harnesses share.
 *
 * A harness is one `void prove(void)`. Its first lines say `sources:`, the
 * files of csrc/ that it is linked with, and `options:`, for CBMC. All values
 * of `nondet_*()` are tried at once. Compiled with RO_TWIN it claims something
 * that is not so, and CBMC must say that: else it proves nothing. */
#ifndef RO_PROVE_H
#define RO_PROVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

char nondet_char(void);
bool nondet_bool(void);
unsigned nondet_unsigned(void);
uint32_t nondet_u32(void);

#define ASSUME(condition) __CPROVER_assume(condition)
#define CLAIM(condition) __CPROVER_assert(condition, #condition)
#ifdef RO_TWIN
#define IS_TWIN true
#else
#define IS_TWIN false
#endif

static inline size_t
any_size(size_t most)
{
    size_t size = nondet_unsigned();
    ASSUME(size <= most);
    return size;
}

/* A block of exactly len bytes, so that one byte over is seen. */
static inline char *
any_bytes(size_t len)
{
    char *bytes = malloc(len);
    ASSUME(bytes != NULL);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = nondet_char();
    }
    return bytes;
}

#endif
