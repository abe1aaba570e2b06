/* The strict scanner, token by token. ro_json_validate runs it to the end; a
 * caller that builds while it checks must not use what it has built before
 * ro_json_scan_next has ended without an error.
 *
 * Same bounds, memory and errors as ro_json_validate. One thread at a time.
 */
#ifndef RO_CORE_JSON_SCAN_H
#define RO_CORE_JSON_SCAN_H

#include "core/json_keys.h"
#include "core/json_lex.h"

/* Containers that need no heap; more than any bound of the product. */
#define RO_JSON_FEW_FRAMES 72u

/* A bracket, a key, a string, a number or a literal; the first byte of raw
 * tells which. Commas and colons are no tokens here. */
typedef struct ro_json_token {
    ro_slice raw;
    bool is_key;
    bool escaped; /* a string with a backslash */
    bool integer; /* a number without fraction and exponent */
} ro_json_token;

typedef struct ro_json_scan {
    ro_json_lexer lexer;
    ro_json_limits limits;
    int state;
    bool tracks_keys;
    uint32_t *frames; /* the object's base in keys, or "array" */
    size_t depth;
    size_t frame_cap;
    uint32_t few_frames[RO_JSON_FEW_FRAMES];
    ro_json_keys keys;
} ro_json_scan;

/* Cannot fail: the first ro_json_scan_next says what is wrong. doc must
 * outlive scan, and scan must not be moved or copied. */
void ro_json_scan_open(ro_json_scan *scan, ro_slice doc,
                       const ro_json_limits *limits);
/* False at the end (scan->lexer.error.code is RO_JSON_OK) and on error. */
bool ro_json_scan_next(ro_json_scan *scan, ro_json_token *token);
/* Twice is fine. */
void ro_json_scan_close(ro_json_scan *scan);

#endif
