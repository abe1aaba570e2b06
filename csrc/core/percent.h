/* Percent-encoding, read leniently: a percent sign that begins no %XX stays.
 */
#ifndef RO_CORE_PERCENT_H
#define RO_CORE_PERCENT_H

#include "core/slice.h"

/* The value of a hexadecimal digit of either case, or -1. */
int ro_hex_value(char c);

/* Resolves %XX until none is left (%2541 is A); out has room for in.len
 * bytes and may be in.ptr. Returns the bytes written. */
size_t ro_percent_decode(ro_slice in, char *out);

/* If the bytes at the end of out[0, len) are %XX, replaces them by what they
 * stand for and returns true; the new length is len - 2. */
bool ro_percent_collapse(char *out, size_t len);

#endif
