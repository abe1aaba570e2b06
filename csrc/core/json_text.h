/* Raw strings: as sent, quotes and escapes included. The one place that
 * reads escapes; what is said to be valid has passed ro_json_validate.
 */
#ifndef RO_CORE_JSON_TEXT_H
#define RO_CORE_JSON_TEXT_H

#include "core/slice.h"

#include <stdint.h>

/* The length of the escape at ptr, a backslash in any text with so many bytes
 * left, and the code point it stands for (a surrogate pair is one, half a
 * pair its own); 0 when it is none. */
size_t ro_json_escape(const char *ptr, size_t left, uint32_t *point);
/* A code point, half of a pair too, in 1 to 4 bytes; how many. */
size_t ro_json_encode(uint32_t point, char out[4]);

/* ---- valid strings ---- */

/* The byte behind the closing quote; ptr is behind the opening one. */
const char *ro_json_string_end(const char *ptr, const char *end);

/* Reads one byte or one escape (a surrogate pair is one) at *ptr, which is
 * not the closing quote, and moves on. Writes what it stands for in UTF-8;
 * returns how many bytes, 1 to 4. */
size_t ro_json_read_char(const char **ptr, char out[4]);

/* Whether two raw strings, given by the byte behind their opening quotes,
 * read the same. */
bool ro_json_same_text(const char *a, const char *b);

#endif
