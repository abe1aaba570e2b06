/* The base64 alphabet, and the digits by which a run of bytes is found in
 * base64. */
#ifndef RO_CORE_BASE64_H
#define RO_CORE_BASE64_H

#include "core/slice.h"

/* Whether c is a digit of the standard alphabet (not '='). */
bool ro_base64_is_digit(char c);
/* The standard digit for c: '-' and '_' of the URL-safe alphabet become '+'
 * and '/', everything else stays. */
char ro_base64_standard(char c);

/* The base64 form of some bytes inside that of something longer, which holds
 * them `shift` bytes (0, 1 or 2, modulo 3) behind its start. */
typedef struct ro_base64_core {
    size_t len;    /* digits that the bytes alone decide */
    bool lead;     /* the digit before those carries bits of the bytes */
    bool trail;    /* the digit behind those carries bits of the bytes */
    unsigned pads; /* '=' behind them if nothing follows the bytes */
} ro_base64_core;

/* Writes core.len digits to out (room for 4 * (bytes.len / 3 + 1)). */
ro_base64_core ro_base64_core_of(ro_slice bytes, unsigned shift, char *out);

#endif
